"""/api/v1/config: runtime parameters, the field's gdpconfig. Anybody with a token may read; setting needs operator."""

from __future__ import annotations

from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Body, Depends, Query
from starlette.responses import Response

from services.task_definition.envelope import Envelope, Text, refused
from services.task_definition.task_store import TaskStore
from shared.auth import Caller, require
from shared.config.parameters import typed
from shared.db.database import Database
from shared.db.queries import Queries
from shared.db.unit_of_work import UnitOfWork
from shared.events import ConfigChanged

_SQL = Queries.beside(__file__, "config.sql")
Anyone = Annotated[Caller, Depends(require())]
Operator = Annotated[Caller, Depends(require("operator"))]
Name = Annotated[str, Body(min_length=1, max_length=200, pattern=r"^[^\s]+$")]
Asked = Annotated[str, Query(min_length=1, max_length=200)]
WRONG_VALUE, NOT_SET = 5, 2
TYPES = ("str", "int", "float", "bool", "json")


def config_routes(database: Database, tasks: TaskStore) -> APIRouter:
    """List, get, set, unset."""
    router = APIRouter(prefix="/api/v1/config", tags=["config"])

    @router.get("/list")
    async def list_all(caller: Anyone, component: Text = None, app: Text = None) -> Response:
        """Every parameter that was set."""
        async with database.read() as connection:
            rows = await _SQL.rows(connection, "parameters", app=app, component=component, key=None, vo=None)
        return Envelope([dict(row) for row in rows])

    @router.get("/get")
    async def get(caller: Anyone, component: Asked, key: Asked, app: str = "jedi", vo: Text = None) -> Response:
        """One parameter with its type; data is null where it is not set and defaults apply."""
        async with database.read() as connection:
            rows = await _SQL.rows(connection, "parameters", app=app, component=component, key=key, vo=vo or "")
        return Envelope(dict(rows[0]) if rows else None)

    @router.post("/set")
    async def set_(
        caller: Operator,
        component: Name,
        key: Name,
        value: Annotated[Any, Body()],
        type: Annotated[str | None, Body()] = None,
        app: Name = "jedi",
        vo: Annotated[str | None, Body(max_length=16)] = None,
        description: Annotated[str, Body(max_length=1000)] = "",
    ) -> Response:
        """Set one parameter; every service takes it up within seconds."""
        try:
            text, kind = as_text(value), type or type_of(value)
        except orjson.JSONEncodeError as error:
            return refused(WRONG_VALUE, f"{component}.{key} = {str(value)[:80]}: {error}")
        if kind not in TYPES:
            return refused(WRONG_VALUE, f"type = {kind!r}: allowed: {', '.join(TYPES)}")
        try:
            typed(text, kind)
        except ValueError as error:
            return refused(WRONG_VALUE, f"{component}.{key} = {text!r}: {error}")
        async with database.begin(reason=f"{component}.{key} set by {caller.name}") as work:
            await _SQL.run(
                work.connection, "put_parameter", app=app, component=component, key=key, vo=vo or "", value=text,
                type=kind, description=description, changed_by=caller.name,
            )  # fmt: skip
            version = await _announce(work, tasks, caller, "config.set", f"{component}.{key}", {"value": text})
        return Envelope({"config_version": version}, f"{component}.{key} = {text} ({kind})")

    @router.post("/unset")
    async def unset(
        caller: Operator, component: Name, key: Name, app: Name = "jedi", vo: Annotated[str | None, Body()] = None
    ) -> Response:
        """Back to the default."""
        async with database.begin(reason=f"{component}.{key} unset by {caller.name}") as work:
            gone = await _SQL.run(
                work.connection, "forget_parameter", app=app, component=component, key=key, vo=vo or ""
            )
            if not gone:
                return refused(NOT_SET, f"{component}.{key} is not set")
            version = await _announce(work, tasks, caller, "config.unset", f"{component}.{key}", {})
        return Envelope({"config_version": version}, f"{component}.{key} has its default again")

    return router


async def _announce(
    work: UnitOfWork, tasks: TaskStore, caller: Caller, verb: str, target: str, details: dict[str, Any]
) -> int:
    """Another version, the news of it, and who did it."""
    version = int(await _SQL.value(work.connection, "next_version"))
    work.emit(ConfigChanged(config_version=version))
    await tasks.audit(
        work.connection, caller=caller.name, roles=caller.roles, verb=verb, target=target, outcome="accepted",
        details=details,
    )  # fmt: skip
    return version


def as_text(value: Any) -> str:
    """A value as it is stored."""
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def type_of(value: Any) -> str:
    """The type of a JSON value."""
    names: dict[type, str] = {bool: "bool", int: "int", float: "float", str: "str"}
    return names.get(type(value), "json")
