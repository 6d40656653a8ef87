"""Statements that change priority or share of waiting jobs."""

from __future__ import annotations

from shared.db.queries import Queries

SQL = Queries.beside(__file__)
