"""The claim: jobs to pilots in one statement."""

from __future__ import annotations

from shared.db.queries import Queries

SQL = Queries.beside(__file__)
