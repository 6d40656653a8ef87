"""Commands on the jobs of a task that are under way."""

from __future__ import annotations

from shared.db.queries import Queries

SQL = Queries.beside(__file__)
