"""Attempts of files: of those whose names differ in their last number only, the newest counts.

Source: JEDI: Contents Feeder.
"""

from __future__ import annotations

import asyncpg

from shared.db.queries import Queries

SQL = Queries.beside(__file__)


async def know_older_files(connection: asyncpg.Connection, catalogue_id: int, *, at_most: int | None) -> bool:
    """Note which files of a dataset have newer attempts, unless that is known of its contents.

    `at_most`: only of a dataset with so many files. Whether it is known now.
    """
    return bool(await SQL.value(connection, "know", timeout_s=60, catalogue_id=catalogue_id, at_most=at_most))
