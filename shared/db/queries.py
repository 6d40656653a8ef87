"""Named SQL: `<noun>.sql` beside `<noun>.py`.

A statement has its name, `-- name: plain`, and under it what it is for.

Parameters are written as ``:name``. aiosql reads the file; the statements are run here, so that a store gets plain
lists and rows, a missing parameter is an error that names it, and a long statement may have its own time limit.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import asyncpg
import orjson
from aiosql.adapters.asyncpg import AsyncPGAdapter
from aiosql.query_loader import QueryLoader
from aiosql.types import SQLOperationType


class Queries:
    """The statements of one file; loaded once, at import."""

    def __init__(self, path: Path) -> None:
        adapter = AsyncPGAdapter()
        self._path = path
        self._sql: dict[str, str] = {}
        self._purposes: dict[str, str] = {}
        self._parameters: dict[str, tuple[str, ...]] = {}
        for query in QueryLoader(adapter, None, mandatory_parameters=False).load_query_data_from_file(path):
            name = query.query_name
            if query.operation_type != SQLOperationType.SELECT or query.parameters is not None:
                raise ValueError(f"{path.name}: {name}: a name is plain; what it gives and takes is said by its caller")
            if name in self._sql:
                raise ValueError(f"{path.name}: {name} is there twice")
            self._sql[name] = query.sql
            self._purposes[name] = " ".join(query.doc_comments.split())
            self._parameters[name] = tuple(adapter.var_sorted[name])

    @classmethod
    def beside(cls, module_file: str) -> Queries:
        """The statements of the file that has the name of a module (`__file__`) and stands beside it."""
        return cls(Path(module_file).with_suffix(".sql"))

    def text(self, name: str) -> str:
        """One statement with $1, $2, ... in place of its parameters, without its semicolon."""
        return self._sql[name].strip().rstrip(";")

    def purpose(self, name: str) -> str:
        """What the comment under a statement's name says, on one line."""
        return self._purposes[name]

    def parameters(self, name: str) -> tuple[str, ...]:
        """The names of a statement's parameters, in the order of $1, $2, ..."""
        return self._parameters[name]

    def names(self) -> list[str]:
        return sorted(self._sql)

    def _arguments(self, name: str, given: dict[str, Any]) -> list[Any]:
        wanted = self._parameters[name]
        if len(given) == len(wanted):
            try:
                return [given[one] for one in wanted]
            except KeyError:
                pass  # told below
        missing, unknown = sorted(set(wanted) - given.keys()), sorted(given.keys() - set(wanted))
        raise TypeError(f"{self._path.name} {name}: missing {missing}, unknown {unknown}")

    async def rows(
        self, connection: asyncpg.Connection, name: str, /, *, timeout_s: float | None = None, **given: Any
    ) -> list[asyncpg.Record]:
        return await connection.fetch(self._sql[name], *self._arguments(name, given), timeout=timeout_s)

    async def row(
        self, connection: asyncpg.Connection, name: str, /, *, timeout_s: float | None = None, **given: Any
    ) -> asyncpg.Record | None:
        return await connection.fetchrow(self._sql[name], *self._arguments(name, given), timeout=timeout_s)

    async def one(
        self, connection: asyncpg.Connection, name: str, /, *, timeout_s: float | None = None, **given: Any
    ) -> asyncpg.Record:
        """The row of a statement that always has one, such as an aggregate."""
        row = await connection.fetchrow(self._sql[name], *self._arguments(name, given), timeout=timeout_s)
        if row is None:
            raise LookupError(f"{self._path.name} {name}: no row")
        return row

    async def value(
        self, connection: asyncpg.Connection, name: str, /, *, timeout_s: float | None = None, **given: Any
    ) -> Any:
        return await connection.fetchval(self._sql[name], *self._arguments(name, given), timeout=timeout_s)

    async def explained(self, connection: asyncpg.Connection, name: str, /, **given: Any) -> dict[str, Any]:
        """Plan a statement that only reads, without running it; the plan's top node, as PostgreSQL writes it."""
        [row] = await connection.fetch(f"EXPLAIN (FORMAT json) {self._sql[name]}", *self._arguments(name, given))
        plan: dict[str, Any] = (orjson.loads(row[0]) if isinstance(row[0], str) else row[0])[0]["Plan"]
        return plan

    async def run(
        self, connection: asyncpg.Connection, name: str, /, *, timeout_s: float | None = None, **given: Any
    ) -> int:
        """Execute; how many rows were touched."""
        status = await connection.execute(self._sql[name], *self._arguments(name, given), timeout=timeout_s)
        count = status.rpartition(" ")[2]
        return int(count) if count.isdigit() else 0
