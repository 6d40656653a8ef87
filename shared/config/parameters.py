"""Runtime parameters: the field's gdpconfig.

Rows (app, component, key, vo, value, type) of table `parameters`.

A service holds one `Parameters`, refreshed by the news ConfigChanged and, because news may be lost, by comparing the
row `config` of table `versions` every 10 s. A policy never sees this object: handlers read values and pass them on.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import asyncpg

from shared.config.parameter import Parameter, fields_set
from shared.config.typed import typed

log = logging.getLogger(__name__)

VERSION_NAME = "config"
REFRESH_EVERY_S = 10.0

_VERSION = "SELECT version FROM versions WHERE name = $1"
_ROWS = "SELECT app, component, key, vo, value, type FROM parameters"

T = TypeVar("T")
V = TypeVar("V")
Place = tuple[str, str, str, str | None]


class Parameters:
    """A typed copy in memory; reading never waits."""

    def __init__(self) -> None:
        self.version = -1
        #: keys with the version at which this process saw them change, and the version that it read first
        self.changed_in: dict[str, int] = {}
        self.first_version = -1
        self._values: dict[Place, Any] = {}
        #: values that their declarations do not allow, told once
        self._refused: set[Place] = set()

    async def refresh(self, connection: asyncpg.Connection, *, force: bool = False) -> bool:
        """Read the table again if its version changed; whether it did.

        A row that does not fit its own type is left out and logged.
        """
        version = await connection.fetchval(_VERSION, VERSION_NAME) or 0
        if version == self.version and not force:
            return False
        values: dict[Place, Any] = {}
        for row in await connection.fetch(_ROWS):
            try:
                value = typed(row["value"], row["type"])
            except ValueError as error:
                log.error(
                    "parameter %s.%s = %r ignored, its default applies: %s",
                    row["component"],
                    row["key"],
                    row["value"],
                    error,
                )
                continue
            values[row["app"], row["component"], row["key"], row["vo"] or None] = value
        if self.version < 0:
            self.first_version = version
        else:
            different = {key for key in values.keys() | self._values.keys() if values.get(key) != self._values.get(key)}
            self.changed_in.update({name: version for _, _, name, _ in different})
        self._values, self._refused, self.version = values, set(), version
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
        self._refused.discard((app, component, key, vo))

    def supposing(self, values: Mapping[Place, Any]) -> Parameters:
        """The same with other values in these places, for a decision that is only supposed."""
        supposed = Parameters()
        supposed.version, supposed._values = self.version, {**self._values, **values}
        return supposed

    def read(
        self,
        parameter: Parameter[T],
        *names: str | None,
        vo: str | None = None,
        components: Sequence[str] = (),
    ) -> T:
        """What is set, else the default.

        A value for one of `names` (`NFILES_Express`) goes before that of the key alone, one for this VO before one for
        every VO, an earlier one of `components` (as a rule the parameter's own) before a later one. What does not fit
        type or range is left out and logged.
        """
        is_plain = not names and vo is None and not components
        if is_plain and (parameter.app, parameter.component, parameter.key, None) not in self._values:
            return parameter.default  # as for most of what each request asks
        return next(self.found(parameter, *names, vo=vo, components=components), parameter.default_of(*names))

    def found(
        self,
        parameter: Parameter[T],
        *names: str | None,
        vo: str | None = None,
        components: Sequence[str] = (),
    ) -> Iterator[T]:
        """Every value that is set, the one that goes before the others first."""
        keys = [f"{parameter.key}_{name}" for name in names if name]
        for key in keys if parameter.only_family else [*keys, parameter.key]:
            for component in components or (parameter.component,):
                for scope in (vo, None) if vo is not None else (None,):
                    place = (parameter.app, component, key, scope)
                    value = self._values.get(place)
                    if value is None or place in self._refused:
                        continue
                    try:
                        yield parameter.checked(value)
                    except ValueError as error:
                        self._refused.add(place)
                        log.error("parameter %s.%s = %r ignored, its default applies: %s", component, key, value, error)

    def least(self, parameter: Parameter[float], unset: float) -> float:
        """The least value for any VO; a VO for which nothing, or 0, is set has `unset`."""
        return min(self.read(parameter, vo=vo) or unset for vo in (None, *self.vos_of(parameter)))

    def vos_of(self, parameter: Parameter[Any]) -> list[str]:
        """The VOs for which it is set by itself, in the order of their names."""
        wanted = (parameter.app, parameter.component, parameter.key)
        return sorted(place[3] for place in self._values if place[:3] == wanted and place[3] is not None)

    def vos(self) -> list[str]:
        """The VOs for which any parameter is set by itself, in the order of their names."""
        return sorted({place[3] for place in self._values if place[3] is not None})

    def names_of(self, parameter: Parameter[Any]) -> list[str]:
        """What stands behind its key wherever it is set for every VO, in order (`<label>_<gshare>`)."""
        start = (parameter.app, parameter.component, f"{parameter.key}_")
        return sorted(
            key.removeprefix(start[2])
            for app, component, key, vo in self._values
            if vo is None and (app, component) == start[:2] and key.startswith(start[2])
        )

    def filled(
        self,
        cls: type[V],
        *,
        vo: str | None = None,
        names: Mapping[str, str | None] | None = None,
        components: Sequence[str] = (),
    ) -> V:
        """A dataclass whose fields say which parameters set them (`set_by`).

        `names` are by suffix: {"<gshare>": "Test"}.

        `components` are asked for those fields whose parameters may be in several.
        """
        values = {}
        for field, parameter, convert in fields_set(cls):
            own = [(names or {}).get(suffix) for suffix in parameter.suffixes]
            asked = components if parameter.also_in else ()
            values[field] = convert(self.read(parameter, *own, vo=vo, components=asked))
        return cls(**values)
