"""Turns of actions: when each was last, and what it did."""

from shared.db.queries import Queries

SQL = Queries.beside(__file__)
