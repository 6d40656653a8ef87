"""Problems found in outside data, collected so that a file is repaired in one go."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from shared.model.known_fields import known_fields


@dataclass(frozen=True, order=True)
class FieldProblem:
    """One refused value: `field` as in the JSON (``jobParameters.2.dataset``), found and allowed values.

    `said`: the whole sentence, where it is not the usual one.
    """

    field: str
    value: str
    allowed: str
    said: str = ""

    def __str__(self) -> str:
        if self.said:
            return self.said
        return f"{self.field} = {self.value}: {self.allowed}" if self.value else f"{self.field}: {self.allowed}"

    def as_sent(self) -> dict[str, Any]:
        """As every answer of every service lists it."""
        return {"field": self.field, "value": self.value, "allowed": self.allowed, "message": str(self)}


@dataclass(frozen=True, order=True)
class Problem:
    """One thing wrong: its file, key (queue name, link, ...), field, and what is allowed."""

    file: str
    key: str
    field: str
    reason: str

    def __str__(self) -> str:
        where = f"{self.file}: {self.key}" if self.key else self.file
        return f"{where}: {self.field}: {self.reason}" if self.field else f"{where}: {self.reason}"

    def as_sent(self) -> dict[str, Any]:
        """The problem as answers of all services list it, with file and key; the value is in the reason."""
        told = {"file": self.file, "key": self.key, "field": self.field, "reason": self.reason}
        return told | {"value": "", "allowed": self.reason, "message": str(self)}


class InvalidGrid(ValueError):
    """A grid that was refused whole; `problems` lists everything that is wrong with it."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(problems))
        super().__init__("; ".join(str(problem) for problem in self.problems[:20]))


def problems_of(
    file: str, key: str, error: ValidationError, within: str = "", first: int = 0, model: Any = None
) -> list[Problem]:
    """Every error of a pydantic validation as a problem with its field, value and what is allowed.

    `within`: the field that what was checked is a part of; `first`: the place there of the first member of a list;
    `model`: what was checked, whose fields are named where one is unknown.
    """
    found = []
    for one in error.errors(include_url=False):
        place = [part + first if isinstance(part, int) and not n else part for n, part in enumerate(one["loc"])]
        field = ".".join(str(part) for part in ([within] if within else []) + place)
        value = repr(one.get("input"))
        said, known = one["msg"], known_fields(model, one["loc"][:-1])
        if one["type"] == "extra_forbidden":
            said = "; allowed: ".join(["unknown field", *([", ".join(known)] if known else [])])
        found.append(Problem(file, key, field, f"{said} (value {value[:80]})"))
    return found
