"""Sandboxes in PostgreSQL, so that every replica has them."""

from __future__ import annotations

from shared.db.queries import Queries

SQL = Queries.beside(__file__)
