"""Problems found in outside data: collected, never raised one by one, so that a file is repaired in one go."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pydantic import ValidationError


@dataclass(frozen=True, order=True)
class Problem:
    """One thing wrong: in which file, at which key (queue name, link, ...), which field, and what is allowed."""

    file: str
    key: str
    field: str
    reason: str

    def __str__(self) -> str:
        where = f"{self.file}: {self.key}" if self.key else self.file
        return f"{where}: {self.field}: {self.reason}" if self.field else f"{where}: {self.reason}"


class InvalidGrid(ValueError):
    """A grid that was refused whole; `problems` lists everything that is wrong with it."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(problems))
        super().__init__("; ".join(str(problem) for problem in self.problems[:20]))


def problems_of(file: str, key: str, error: ValidationError) -> list[Problem]:
    """Every error of a pydantic validation as a problem that names the field, the value and what is allowed."""
    found = []
    for one in error.errors(include_url=False):
        field = ".".join(str(part) for part in one["loc"])
        value = repr(one.get("input"))
        found.append(Problem(file, key, field, f"{one['msg']} (value {value[:80]})"))
    return found
