"""What is wrong with a submitted task: each problem with its field, its value and what is allowed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import ValidationError

from shared.model.problems import FieldProblem
from shared.model.task_spec_problems import problem_of_error


class InvalidTask(ValueError):
    """A task that was refused; `problems` lists everything that is wrong with it.

    `spec`: its TaskSpec if each field by itself is valid, so that the world can be asked about those fields as well.
    """

    def __init__(self, problems: Iterable[FieldProblem], spec: Any = None) -> None:
        self.problems, self.spec = tuple(dict.fromkeys(problems)), spec
        super().__init__("; ".join(str(problem) for problem in self.problems))


def problems_of_task(
    error: ValidationError, known_fields: Iterable[str], prefix: str = "", first: int = 0
) -> list[FieldProblem]:
    """Every error of a pydantic validation; an unknown field names the nearest known one.

    `first`: the place in its list of the first member that was checked.
    """
    known, found = sorted(known_fields), []
    for one in error.errors(include_url=False):
        place = tuple(part + first if isinstance(part, int) and not n else part for n, part in enumerate(one["loc"]))
        found.append(problem_of_error({**one, "loc": place}, known, prefix))
    return found
