"""Statements about datasets and copies that are deleted after use, see `expiring.sql`."""

from shared.db.queries import Queries

SQL = Queries.beside(__file__)
