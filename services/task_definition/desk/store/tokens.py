"""Revocations of tokens."""

from __future__ import annotations

from shared.db.queries import Queries

SQL = Queries.beside(__file__)
#: no time is later, in seconds since the epoch: the year 2100
LATEST = 4_102_444_800
