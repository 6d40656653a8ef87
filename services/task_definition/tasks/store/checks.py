"""Input that is looked at again: what is due, and what was seen."""

from shared.db.queries import Queries

SQL = Queries.beside(__file__)
