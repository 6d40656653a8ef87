"""Runtime parameters: the field's gdpconfig. Rows (app, component, key, vo, value, type) of table `parameters`.

A service holds one `Parameters`, refreshed by the news ConfigChanged and, because news may be lost, by comparing the
row `config` of table `versions` every 10 s. A policy never sees this object: handlers read values and pass them on.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, TypeVar, cast

import asyncpg

from shared.config.known import find_parameter
from shared.config.known_parameters import KNOWN
from shared.config.typed import typed

log = logging.getLogger(__name__)

VERSION_NAME = "config"
REFRESH_EVERY_S = 10.0

_VERSION = "SELECT version FROM versions WHERE name = $1"
_ROWS = "SELECT app, component, key, vo, value, type FROM parameters"

T = TypeVar("T")


class Parameters:
    """A typed copy in memory; `get` never waits."""

    def __init__(self) -> None:
        self.version = -1
        #: keys with the version at which this process saw them change, and the version that it read first
        self.changed_in: dict[str, int] = {}
        self.first_version = -1
        self._values: dict[tuple[str, str, str, str | None], Any] = {}

    async def refresh(self, connection: asyncpg.Connection, *, force: bool = False) -> bool:
        """Read the table again if its version changed; whether it did. A row that does not fit its type, or lies
        outside the range of a known parameter, is left out (the default applies) and logged."""
        version = await connection.fetchval(_VERSION, VERSION_NAME) or 0
        if version == self.version and not force:
            return False
        values: dict[tuple[str, str, str, str | None], Any] = {}
        for row in await connection.fetch(_ROWS):
            try:
                value = typed(row["value"], row["type"])
                known = find_parameter(KNOWN, row["component"], row["key"])
                if known is not None:
                    known.check_range(value)
            except ValueError as error:
                log.error(
                    "parameter %s.%s = %r ignored, its default applies: %s",
                    row["component"], row["key"], row["value"], error,
                )  # fmt: skip
                continue
            values[row["app"], row["component"], row["key"], row["vo"] or None] = value
        if self.version < 0:
            self.first_version = version
        else:
            different = {key for key in values.keys() | self._values.keys() if values.get(key) != self._values.get(key)}
            self.changed_in.update({name: version for _, _, name, _ in different})
        self._values, self.version = values, version
        return True

    def changed_since(self, names: Iterable[str], version: int) -> bool:
        """Whether one of these (COMPONENT.KEY, or a KEY_<share> of them) may have changed after a version."""
        if version < self.first_version:
            return True
        keys = tuple(name.partition(".")[2] for name in names)
        return any(changed > version and key.startswith(keys) for key, changed in self.changed_in.items())

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
