"""The declaration of a runtime parameter, made once and where it is used.

It says what may be set, to which values, what applies otherwise, and which checks it governs.

A family has keys with a name behind them: `DISK_THRESHOLD_<gshare>` wins over `DISK_THRESHOLD`. Pure.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from shared.config.typed import typed

T = TypeVar("T")
V = TypeVar("V")

TYPE_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "json": "JSON",
    "str": "a text",
}
JEDI, SERVER = "jedi", "pandaserver"
SHARE = "<gshare>"
#: the most of a parameter that states none, by its unit; ten years of time, so that no date leaves the calendar
MOST_OF_UNIT = {
    "s": 315_360_000.0, "h": 87_600.0, "days": 3650.0, "%": 1000.0, "": 1e6, "priority": 1e9, "events": 1e12,
    "MB": 1e9, "GB": 1e9, "TB": 1e6, "kB/s": 1e12, "kB/s per core": 1e12,
}  # fmt: skip
MOST_OF_A_COUNT = 1e9
_KINDS: dict[type, str] = {bool: "bool", int: "int", float: "float", str: "str"}
_READ = "parameter"


@dataclass(frozen=True)
class Parameter(Generic[T]):
    """A runtime parameter; `default` applies where nothing is set.

    None: it follows from something else (`kind` names the type then). `low` to `high` are allowed, in its unit (`high`
    None: what is sensible in that unit).

    `suffixes`: what may stand behind the key, such as <gshare>; `own_defaults`: names with a default of their own,
    where nothing is set for the name or the key. `only_family`: the key alone is not read. `also_in`: other components
    that may hold it. `governs`: names of the checks of brokerage that compare with it. `choices`: the only values of a
    text. `check` is asked when a value is set: it raises ValueError that names what is wrong inside it and what is
    allowed. `per_vo`: a VO may have a value of its own (so may all that fill a dataclass with PER_VO).
    """

    component: str
    key: str
    default: T
    unit: str
    means: str
    low: float = 0.0
    high: float | None = None
    _: dataclasses.KW_ONLY
    kind: str = ""
    suffixes: tuple[str, ...] = ()
    own_defaults: tuple[tuple[str, T], ...] = ()
    only_family: bool = False
    also_in: tuple[str, ...] = ()
    app: str = JEDI
    governs: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    check: Callable[[Any], object] | None = None
    per_vo: bool = False

    def __post_init__(self) -> None:
        if not self.kind:
            object.__setattr__(self, "kind", _KINDS.get(type(self.default), "json"))

    @property
    def name(self) -> str:
        """COMPONENT.KEY."""
        return f"{self.component}.{self.key}"

    @property
    def names(self) -> tuple[str, ...]:
        """Every form of its name."""
        keys = (*(() if self.only_family else (self.key,)), *(f"{self.key}_{suffix}" for suffix in self.suffixes))
        return tuple(f"{component}.{key}" for component in (self.component, *self.also_in) for key in keys)

    @property
    def defaults(self) -> dict[str, T]:
        """Every form of its name with what applies where nothing is set."""
        own = {f"{self.name}_{name}": value for name, value in self.own_defaults}
        return {**dict.fromkeys(self.names, self.default), **own}

    def default_of(self, *names: str | None) -> T:
        """What applies for the first of these names that has a default of its own, else for all."""
        own = dict(self.own_defaults)
        return next((own[name] for name in names if name in own), self.default)

    def fits(self, component: str, key: str) -> bool:
        """Whether this is the parameter of that name."""
        if component != self.component and component not in self.also_in:
            return False
        if key == self.key:
            return not self.only_family
        return bool(self.suffixes) and key.startswith(f"{self.key}_") and len(key) > len(self.key) + 1

    @property
    def highest(self) -> float:
        """The most that may be set."""
        return MOST_OF_UNIT.get(self.unit, MOST_OF_A_COUNT) if self.high is None else self.high

    @property
    def allowed(self) -> str:
        """The values that may be set, in words."""
        words = TYPE_WORDS[self.kind] if not self.choices else f"one of {', '.join(self.choices)}"
        if self.kind in ("int", "float"):
            words += f" from {_shown(self.low)} to {_shown(self.highest)}"
        return f"{words} ({self.unit})" if self.unit else words

    def parsed(self, text: str) -> T:
        """The value of a text. Raises ValueError naming the value and what is allowed."""
        try:
            value = self.checked(typed(text, self.kind))
        except ValueError as error:
            raise ValueError(str(error) if "allowed: " in str(error) else f"{error}; allowed: {self.allowed}") from None
        if self.check is not None:
            self.check(value)
        return value

    def checked(self, value: Any) -> T:
        """A value of its type and inside its range; 5 and 5.0 will do for each other.

        Raises ValueError that says what is allowed.
        """
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if self.kind == "float" and is_number:
            value = float(value)
        if self.kind == "int" and isinstance(value, float) and value.is_integer():
            value = int(value)
        if self.kind == "json":
            fits = self.default is None or isinstance(value, type(self.default))
        else:
            fits = _KINDS.get(type(value)) == self.kind
        if self.choices and value not in self.choices:
            fits = False
        if not fits or (is_number and not self.low <= value <= self.highest):
            raise ValueError(f"allowed: {self.allowed}")
        found: T = value
        return found


def _shown(number: float) -> str:
    return f"{number:,.0f}" if abs(number) >= 1e6 else f"{number:g}"


def set_by(parameter: Parameter[T], convert: Callable[[T], V]) -> V:
    """A field of a frozen dataclass that holds a parameter's value, converted.

    Use: `= set_by(Parameter(...), int)`.

    `Parameters.filled` reads all such fields of a class; without any value they have the declared defaults.
    """
    found: V = dataclasses.field(default=convert(parameter.default), metadata={_READ: (parameter, convert)})
    return found


def fields_set(cls: type) -> Iterator[tuple[str, Parameter[Any], Callable[[Any], Any]]]:
    """Name, parameter and conversion of the fields of a dataclass that parameters set."""
    for one in dataclasses.fields(cls):
        if _READ in one.metadata:
            parameter, convert = one.metadata[_READ]
            yield one.name, parameter, convert


def declared_by(cls: type) -> tuple[Parameter[Any], ...]:
    """The parameters that set the fields of a dataclass."""
    return tuple(parameter for _, parameter, _ in fields_set(cls))
