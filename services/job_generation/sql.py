"""The SQL of this service, loaded once."""

from __future__ import annotations

from shared.db.queries import Queries

QUERIES = Queries.beside(__file__)
