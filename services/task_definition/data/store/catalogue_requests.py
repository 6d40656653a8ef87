"""What is wanted of catalogues outside, and how far it is."""

from __future__ import annotations

from shared.db.queries import Queries

SQL = Queries.beside(__file__)
