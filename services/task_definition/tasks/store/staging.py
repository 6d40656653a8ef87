"""What is staged from tape."""

from shared.db.queries import Queries

SQL = Queries.beside(__file__)
