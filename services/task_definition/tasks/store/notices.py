"""Notices to owners of tasks."""

from shared.db.queries import Queries

SQL = Queries.beside(__file__)
