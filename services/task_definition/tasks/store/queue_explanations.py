"""Reads what is known about a queue."""

from __future__ import annotations

from shared.db.queries import Queries

SQL = Queries.beside(__file__)
