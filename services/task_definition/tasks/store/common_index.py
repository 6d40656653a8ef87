"""Input whose files belong together by their index."""

from __future__ import annotations

from shared.db.queries import Queries

SQL = Queries.beside(__file__)
