"""The runtime parameters that services read: what may be set, to which values, and what applies otherwise.

A family has keys with a name behind them: `DISK_THRESHOLD_<gshare>` wins over `DISK_THRESHOLD`. Plugins read what they
like: a key that is not known here may be set if the caller says that it is meant.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared.config.typed import typed

TYPE_WORDS = {
    "int": "a whole number", "float": "a number", "bool": "true or false", "json": "JSON", "str": "a text",
}  # fmt: skip
JEDI, SERVER = "jedi", "pandaserver"
MOST_NEAR = 3
#: the most of a parameter that states none, by its unit; ten years of time, so that no date leaves the calendar
MOST_OF_UNIT = {
    "s": 315_360_000.0, "h": 87_600.0, "days": 3650.0, "%": 1000.0, "": 1e6, "priority": 1e9, "events": 1e12,
    "MB": 1e9, "GB": 1e9, "TB": 1e6, "kB/s": 1e12, "kB/s per core": 1e12,
}  # fmt: skip
MOST_OF_A_COUNT = 1e9


@dataclass(frozen=True)
class KnownParameter:
    """`default` applies where nothing is set, None: it follows from something else; `least` to `most` are allowed, in
    its unit (`most` None: what is sensible in that unit).

    `suffixes`: what may stand behind the key, such as <gshare>; `only_family`: the key alone is not read.
    """

    component: str
    key: str
    kind: str
    default: Any
    unit: str
    meaning: str
    least: float = 0.0
    most: float | None = None
    suffixes: tuple[str, ...] = ()
    only_family: bool = False
    app: str = JEDI

    @property
    def names(self) -> tuple[str, ...]:
        """Every form of its name."""
        own = () if self.only_family else (f"{self.component}.{self.key}",)
        return (*own, *(f"{self.component}.{self.key}_{suffix}" for suffix in self.suffixes))

    def fits(self, component: str, key: str) -> bool:
        """Whether this is the parameter of that name."""
        if component != self.component:
            return False
        if key == self.key:
            return not self.only_family
        return bool(self.suffixes) and key.startswith(f"{self.key}_") and len(key) > len(self.key) + 1

    @property
    def highest(self) -> float:
        """The most that may be set."""
        return MOST_OF_UNIT.get(self.unit, MOST_OF_A_COUNT) if self.most is None else self.most

    @property
    def allowed(self) -> str:
        """The values that may be set, in words."""
        words = TYPE_WORDS[self.kind]
        if self.kind in ("int", "float"):
            words += f" from {_shown(self.least)} to {_shown(self.highest)}"
        return f"{words} ({self.unit})" if self.unit else words

    def checked(self, text: str) -> Any:
        """The value of a text. Raises ValueError naming the parameter, the value and what is allowed."""
        try:
            value = typed(text, self.kind)
        except ValueError as error:
            raise ValueError(f"{error}; allowed: {self.allowed}") from None
        self.check_range(value)
        return value

    def check_range(self, value: Any) -> None:
        """Raises ValueError for a number outside the range."""
        if isinstance(value, int | float) and not isinstance(value, bool) and not self.least <= value <= self.highest:
            raise ValueError(f"allowed: {self.allowed}")


def _shown(number: float) -> str:
    return f"{number:,.0f}" if abs(number) >= 1e6 else f"{number:g}"


def find_parameter(known: tuple[KnownParameter, ...], component: str, key: str) -> KnownParameter | None:
    """The parameter of this name; of families the one with the longest key."""
    fitting = [one for one in known if one.fits(component, key)]
    return max(fitting, key=lambda one: (one.key == key, len(one.key)), default=None)


def near_names(known: tuple[KnownParameter, ...], component: str, key: str) -> list[str]:
    """The names most like one that is not known: of the right key in another component first."""
    elsewhere = [f"{one.component}.{key}" for one in known if one.fits(one.component, key)]
    names = [name for one in known for name in one.names]
    alike: Mapping[str, str] = {name.lower(): name for name in names}
    near = difflib.get_close_matches(f"{component}.{key}".lower(), alike, n=MOST_NEAR, cutoff=0.7)
    return list(dict.fromkeys([*elsewhere, *(alike[name] for name in near)]))[:MOST_NEAR]
