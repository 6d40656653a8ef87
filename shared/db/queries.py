"""Named SQL: `queries.sql` beside a store, each statement under its ``-- name:``, parameters written as ``:name``.

aiosql reads the file; the statements are run here, so that a store gets plain lists and rows, a missing parameter is
an error that names it, and a long statement may have its own time limit.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aiosql
import asyncpg


class Queries:
    """The statements of one file; loaded once, at import."""

    def __init__(self, path: Path) -> None:
        loaded = aiosql.from_path(path, "asyncpg", mandatory_parameters=False)
        self._path = path
        self._sql: dict[str, str] = {}
        self._parameters: dict[str, tuple[str, ...]] = {}
        for name in loaded.available_queries:
            if name.endswith("_cursor"):
                continue
            self._sql[name] = getattr(loaded, name).sql
            self._parameters[name] = tuple(loaded.driver_adapter.var_sorted[name])

    @classmethod
    def beside(cls, module_file: str, name: str = "queries.sql") -> Queries:
        """The statements of the file `name` in the folder of a module (`__file__`)."""
        return cls(Path(module_file).with_name(name))

    def text(self, name: str) -> str:
        """One statement with $1, $2, ... in place of its parameters."""
        return self._sql[name]

    def names(self) -> list[str]:
        return sorted(self._sql)

    def _arguments(self, name: str, given: dict[str, Any]) -> list[Any]:
        wanted = self._parameters[name]
        if given.keys() != set(wanted):
            missing, unknown = sorted(set(wanted) - given.keys()), sorted(given.keys() - set(wanted))
            raise TypeError(f"{self._path.name} {name}: missing {missing}, unknown {unknown}")
        return [given[one] for one in wanted]

    async def rows(
        self, connection: asyncpg.Connection, name: str, /, *, timeout_s: float | None = None, **given: Any
    ) -> list[asyncpg.Record]:
        return await connection.fetch(self._sql[name], *self._arguments(name, given), timeout=timeout_s)

    async def row(
        self, connection: asyncpg.Connection, name: str, /, *, timeout_s: float | None = None, **given: Any
    ) -> asyncpg.Record | None:
        return await connection.fetchrow(self._sql[name], *self._arguments(name, given), timeout=timeout_s)

    async def value(
        self, connection: asyncpg.Connection, name: str, /, *, timeout_s: float | None = None, **given: Any
    ) -> Any:
        return await connection.fetchval(self._sql[name], *self._arguments(name, given), timeout=timeout_s)

    async def run(
        self, connection: asyncpg.Connection, name: str, /, *, timeout_s: float | None = None, **given: Any
    ) -> int:
        """Execute; how many rows were touched."""
        status = await connection.execute(self._sql[name], *self._arguments(name, given), timeout=timeout_s)
        count = status.rpartition(" ")[2]
        return int(count) if count.isdigit() else 0
