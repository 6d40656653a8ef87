"""Statements on shares and replicas, and on rows that are deleted when old."""

from __future__ import annotations

from shared.db.queries import Queries

SQL = Queries.beside(__file__)
