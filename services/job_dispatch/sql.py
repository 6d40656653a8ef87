"""The statements of queries.sql."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aiosql
import asyncpg


class _Queries:
    """The statements of queries.sql as coroutines; rows come as a list, not as aiosql's asynchronous iterator."""

    def __init__(self, path: Path) -> None:
        self._loaded: Any = aiosql.from_path(path, "asyncpg", mandatory_parameters=False)

    def __getattr__(self, name: str) -> Any:
        query = getattr(self._loaded, name)

        async def run(connection: asyncpg.Connection, **parameters: Any) -> Any:
            result = query(connection, **parameters)
            if hasattr(result, "__aiter__"):
                return [row async for row in result]
            return await result

        setattr(self, name, run)
        return run

    def text(self, name: str) -> str:
        """The SQL of a statement with numbered parameters, for EXPLAIN."""
        return str(getattr(self._loaded, name).sql)


QUERIES: Any = _Queries(Path(__file__).with_name("queries.sql"))
