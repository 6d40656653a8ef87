"""/api/v1/config: runtime parameters, the field's gdpconfig.

Anybody with a token may read what is set for all and for their VO; what names people or secrets, and setting, is for
operators.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import asyncpg
from fastapi import APIRouter, Body, Depends, Query
from starlette.responses import Response

from services.task_definition.desk.policy.effects import Stored, without_effect
from services.task_definition.desk.policy.setting import InvalidSetting, app_of, setting_of
from services.task_definition.desk.store.audit import audit
from services.task_definition.desk.store.config import SQL
from shared.auth import Caller, access, require
from shared.config.declared import find_parameter, is_per_vo, near_names
from shared.config.parameter import Parameter
from shared.config.told import is_told
from shared.db.database import Database
from shared.db.unit_of_work import UnitOfWork
from shared.events import ConfigChanged
from shared.web.envelope import BAD_REQUEST, NOT_FOUND, Envelope, refused
from shared.web.json_route import JsonRoute
from shared.web.values import Text

Anyone = Annotated[Caller, Depends(require(access.STATES))]
Operator = Annotated[Caller, Depends(require(access.OPERATORS, "operator", right="modify"))]
Name = Annotated[str, Body(min_length=1, max_length=200, pattern=r"^[^\s]+$")]
Asked = Annotated[str, Query(min_length=1, max_length=200)]


def config_routes(database: Database) -> APIRouter:
    """List, get, describe, set, unset."""
    routes, router = (
        ConfigRoutes(database),
        APIRouter(route_class=JsonRoute, prefix="/api/v1/config", tags=["config"]),
    )
    router.get("/list")(routes.list_all)
    router.get("/get")(routes.get)
    router.get("/describe")(routes.describe)
    router.post("/set")(routes.set)
    router.post("/unset")(routes.unset)
    return router


class ConfigRoutes:
    """One method for each path. An `app` that is left out is the one that reads the parameter."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_all(self, caller: Anyone, component: Text = None, app: Text = None) -> Response:
        """Every parameter that was set and that the caller is told."""
        async with self._database.read() as connection:
            rows = await SQL.rows(connection, "parameters", app=app, component=component, key=None, vo=None)
        return Envelope([_told(row, caller) for row in rows if _is_told(row, caller)])

    async def get(self, caller: Anyone, component: Asked, key: Asked, app: Text = None, vo: Text = None) -> Response:
        """One parameter with its type; data is null where it is not set and defaults apply."""
        app = app or app_of(component, key)
        async with self._database.read() as connection:
            rows = await SQL.rows(connection, "parameters", app=app, component=component, key=key, vo=vo or "")
        return Envelope(_told(rows[0], caller) if rows and _is_told(rows[0], caller) else None)

    async def describe(
        self, caller: Anyone, component: Asked, key: Asked, vo: Text = None, value: Text = None
    ) -> Response:
        """Tell what a parameter means, what is allowed and its default; `set`: what was set, as far as told.

        `would_be`: a `value` as the parameter's type reads it, null where it is not allowed, and `wrong` says why.
        `general`: with a VO, what was set for all, which holds where nothing is set for the VO. `withheld`: something
        is set of which the caller is not told.
        """
        parameter = find_parameter(component, key)
        if parameter is None:
            near = " or ".join(near_names(component, key))
            said = f"{component}.{key} is no runtime parameter{f'; did you mean {near}?' if near else ''}"
            return refused(NOT_FOUND, said)
        query: dict[str, Any] = {"app": parameter.app, "component": component, "key": key}
        async with self._database.read() as connection:
            rows = await SQL.rows(connection, "parameters", **query, vo=vo or "")
            general = await SQL.rows(connection, "parameters", **query, vo="") if vo else []
        name = f"{component}.{key}"
        return Envelope(
            {
                "name": name,
                "means": parameter.means,
                "unit": parameter.unit,
                "allowed": parameter.allowed,
                "default": parameter.defaults.get(name, parameter.default),
                "type": parameter.kind,
                "governs": list(parameter.governs),
                "is_per_vo": is_per_vo(parameter),
                "set": _told(rows[0], caller) if rows and _is_told(rows[0], caller) else None,
                "general": _told(general[0], caller) if general and _is_told(general[0], caller) else None,
                "withheld": any(not _is_told(row, caller) for row in [*rows, *general]),
                **({} if value is None else _read_as(parameter, value)),
            }
        )

    async def set(
        self,
        caller: Operator,
        component: Name,
        key: Name,
        value: Annotated[Any, Body()],
        type: Annotated[str | None, Body()] = None,
        app: Annotated[str | None, Body(max_length=200)] = None,
        vo: Annotated[str | None, Body(max_length=16)] = None,
        description: Annotated[str, Body(max_length=1000)] = "",
        new: Annotated[bool, Body(description="store a key that no service here reads: a plugin may")] = False,
    ) -> Response:
        """Set one parameter; every service takes it up within seconds. What makes no sense is refused."""
        try:
            setting = setting_of(component, key, value, type, app, new=new, vo=vo)
        except ValueError as error:
            problems = error.problems if isinstance(error, InvalidSetting) else ()
            return refused(BAD_REQUEST, str(error), problems)
        async with self._database.begin(reason=f"{component}.{key} set by {caller.name}") as work:
            await SQL.run(
                work.connection,
                "put_parameter",
                app=setting.app,
                component=component,
                key=key,
                vo=vo or "",
                value=setting.text,
                type=setting.kind,
                description=description,
                changed_by=caller.name,
            )
            details = {"value": setting.text}
            version = await _announce(work, caller, "config.set", f"{component}.{key}", details)
            rows = await SQL.rows(work.connection, "parameters", app=None, component=None, key=None, vo=None)
        unused = without_effect(_stored(rows), component, key, vo or "")
        said = f"{component}.{key} = {setting.text} ({setting.kind})"
        return Envelope({"config_version": version}, f"{said}; {unused}" if unused else said)

    async def unset(
        self,
        caller: Operator,
        component: Name,
        key: Name,
        app: Annotated[str | None, Body(max_length=200)] = None,
        vo: Annotated[str | None, Body()] = None,
    ) -> Response:
        """Back to the default."""
        app = app or app_of(component, key)
        async with self._database.begin(reason=f"{component}.{key} unset by {caller.name}") as work:
            gone = await SQL.run(
                work.connection, "forget_parameter", app=app, component=component, key=key, vo=vo or ""
            )
            if not gone:
                return refused(NOT_FOUND, f"{component}.{key} is not set")
            version = await _announce(work, caller, "config.unset", f"{component}.{key}", {})
        return Envelope({"config_version": version}, f"{component}.{key} has its default again")


def _stored(rows: Sequence[asyncpg.Record]) -> Stored:
    found: dict[tuple[str, str], dict[str, str]] = {}
    for row in rows:
        found.setdefault((row["component"], row["key"]), {})[row["vo"] or ""] = str(row["value"])
    return found


def _read_as(parameter: Parameter, value: str) -> dict[str, Any]:
    """What a text would be as a value of this parameter, and why it is none."""
    try:
        return {"would_be": parameter.parsed(value.strip()), "wrong": None}
    except ValueError as error:
        return {"would_be": None, "wrong": str(error)}


def _is_told(row: asyncpg.Record, caller: Caller) -> bool:
    return is_told(caller, row["component"], row["key"], row["vo"])


def _told(row: asyncpg.Record, caller: Caller) -> dict[str, Any]:
    """Who set it is for operators."""
    return {**row, "changed_by": row["changed_by"] if access.OPERATORS.allows(caller, access.Whose()) else None}


async def _announce(work: UnitOfWork, caller: Caller, verb: str, target: str, details: dict[str, Any]) -> int:
    """Another version, the news of it, and who did it."""
    version = int(await SQL.value(work.connection, "next_version"))
    work.emit(ConfigChanged(config_version=version))
    await audit(
        work.connection,
        caller=caller,
        verb=verb,
        target=target,
        details=details,
    )
    return version
