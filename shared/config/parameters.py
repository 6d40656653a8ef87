"""Runtime parameters: the field's gdpconfig. Rows (app, component, key, vo, value, type) of table `parameters`.

A service holds one `Parameters`, refreshed by the news ConfigChanged and, because news may be lost, by comparing the
row `config` of table `versions` every 10 s. A policy never sees this object: handlers read values and pass them on.
"""

from __future__ import annotations

import json
import logging
import math
from typing import Any, TypeVar, cast

import asyncpg

log = logging.getLogger(__name__)

VERSION_NAME = "config"
REFRESH_EVERY_S = 10.0

_VERSION = "SELECT version FROM versions WHERE name = $1"
_ROWS = "SELECT app, component, key, vo, value, type FROM parameters"

T = TypeVar("T")

_TRUE, _FALSE = {"true", "1", "yes", "on"}, {"false", "0", "no", "off"}


def typed(value: str, kind: str) -> Any:
    """A stored value as its type: str, int, float, bool or json. Raises ValueError naming value and type."""
    try:
        if kind == "str":
            return value
        if kind == "int":
            return int(value)
        if kind == "float" and math.isfinite(float(value)):
            return float(value)
        if kind == "json":
            return json.loads(value)
        if kind == "bool" and value.strip().lower() in _TRUE | _FALSE:
            return value.strip().lower() in _TRUE
    except ValueError:
        pass
    else:
        if kind not in ("bool", "float"):
            raise ValueError(f"unknown type {kind!r}: allowed are str, int, float, bool, json")
    raise ValueError(f"{value!r} is not of type {kind}")


class Parameters:
    """A typed copy in memory; `get` never waits."""

    def __init__(self) -> None:
        self.version = -1
        self._values: dict[tuple[str, str, str, str | None], Any] = {}

    async def refresh(self, connection: asyncpg.Connection, *, force: bool = False) -> bool:
        """Read the table again if its version changed; whether it did. A row that does not fit its type is left out
        (the default applies) and logged."""
        version = await connection.fetchval(_VERSION, VERSION_NAME) or 0
        if version == self.version and not force:
            return False
        values: dict[tuple[str, str, str, str | None], Any] = {}
        for row in await connection.fetch(_ROWS):
            try:
                value = typed(row["value"], row["type"])
            except ValueError as error:
                log.error("parameter %s.%s ignored: %s", row["component"], row["key"], error)
                continue
            values[row["app"], row["component"], row["key"], row["vo"] or None] = value
        self._values, self.version = values, version
        return True

    def set_for_test(self, component: str, key: str, value: Any, *, app: str = "jedi", vo: str | None = None) -> None:
        """Put a value without a database (dry runs and tests)."""
        self._values[app, component, key, vo] = value

    def get(self, component: str, key: str, *, app: str = "jedi", vo: str | None = None, default: T) -> T:
        """The value for this VO, else the one for every VO, else `default`, whose type the result has.

        An int is accepted where the default is a float; any other difference of type gives the default.
        """
        for scope in (vo, None) if vo is not None else (None,):
            value = self._values.get((app, component, key, scope))
            if value is None:
                continue
            if default is None or _fits(value, default):
                return cast(T, value)
            if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
                return cast(T, float(value))
            log.warning("parameter %s.%s has the wrong type: %r", component, key, value)
        return default


def _fits(value: Any, default: Any) -> bool:
    """Same type; a bool is not an int here."""
    return isinstance(value, type(default)) and isinstance(value, bool) == isinstance(default, bool)
