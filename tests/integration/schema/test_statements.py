"""Every statement of every .sql file is one that PostgreSQL understands on the schema as it is now."""

from __future__ import annotations

import asyncpg

from shared.db import Database
from shared.db.queries import Queries
from tests.contracts.test_statements import SQL_FILES, told


async def test_every_statement_can_be_prepared(database: Database) -> None:
    refused, n_statements = [], 0
    async with database.read() as connection:
        for path in SQL_FILES:
            statements = Queries(path)
            for name in statements.names():
                n_statements += 1
                try:
                    await connection.prepare(statements.text(name))
                except asyncpg.PostgresError as error:
                    refused.append(f"{told(path)}: {name}: {error}")
    assert refused == []
    assert n_statements > 300
