"""Class of work, share and work queue of tasks."""

from __future__ import annotations

from shared.db.queries import Queries

SQL = Queries.beside(__file__)
