"""What is written down of pilots and workers."""

from __future__ import annotations

from shared.db.queries import Queries

SQL = Queries.beside(__file__)
