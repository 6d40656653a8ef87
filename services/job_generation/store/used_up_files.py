"""Files of event ranges in object stores that nobody needs any more."""

from __future__ import annotations

from shared.db.queries import Queries

SQL = Queries.beside(__file__)
