"""What is kept of a dataset of a catalogue outside."""

from __future__ import annotations

from shared.db.queries import Queries

SQL = Queries.beside(__file__)
