"""What explains why a task or a job waits."""

from __future__ import annotations

from shared.db.queries import Queries

SQL = Queries.beside(__file__)
