"""Empty queues, and the tasks that were sent to them."""

from shared.db.queries import Queries

SQL = Queries.beside(__file__)
