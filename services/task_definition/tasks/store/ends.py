"""How tasks end, and what they leave."""

from __future__ import annotations

from shared.db.queries import Queries

SQL = Queries.beside(__file__)
