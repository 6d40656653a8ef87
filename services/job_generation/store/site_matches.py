"""Matches of sites that advertise themselves."""

from __future__ import annotations

from shared.db.queries import Queries

SQL = Queries.beside(__file__)
