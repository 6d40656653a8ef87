"""Statements about the jobs of users and working groups."""

from __future__ import annotations

from shared.db.queries import Queries

SQL = Queries.beside(__file__)
