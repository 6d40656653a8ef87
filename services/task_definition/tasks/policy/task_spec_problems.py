"""What is wrong with a submitted task: each problem with its field, its value and what is allowed."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from shared.model.known_fields import known_fields
from shared.model.problems import FieldProblem
from shared.model.task_spec_problems import problem, problem_of_error

#: fields inside of structured ones that the field's clients know, and this version does not carry out
_NOT_TAKEN = {
    (
        "segmentSpecs",
        "datasets",
    ): "not taken by this version: a segment lists its files, in `files`; allowed: name, files, id"
}


class InvalidTask(ValueError):
    """A task that was refused; `problems` lists everything that is wrong with it.

    `spec`: its TaskSpec if each field by itself is valid, so that the world can be asked about those fields as well.
    """

    def __init__(self, problems: Iterable[FieldProblem], spec: Any = None) -> None:
        self.problems, self.spec = tuple(dict.fromkeys(problems)), spec
        super().__init__("; ".join(str(problem) for problem in self.problems))


def problems_of_task(
    error: ValidationError, known: Iterable[str], prefix: str = "", first: int = 0, model: type[BaseModel] | None = None
) -> list[FieldProblem]:
    """Every error of a pydantic validation; an unknown field names the nearest one of its own object.

    `first`: the place in its list of the first member that was checked. `model`: what was validated, whose structured
    fields have fields of their own.
    """
    outermost, found = sorted(known), []
    for one in error.errors(include_url=False):
        place = tuple(part + first if isinstance(part, int) and not n else part for n, part in enumerate(one["loc"]))
        if one["type"] == "extra_forbidden" and len(place) > 1:
            found.append(_unknown_inside(place, one["input"], known_fields(model, place[:-1]) if model else [], prefix))
        else:
            found.append(problem_of_error({**one, "loc": place}, outermost, prefix))
    return found


def _unknown_inside(place: Sequence[str | int], value: Any, known: list[str], prefix: str) -> FieldProblem:
    """A field that a structured field does not have, with all that it has."""
    field, name = prefix + ".".join(map(str, place)), str(place[-1])
    if (place[0], name) in _NOT_TAKEN:
        return problem(field, value, _NOT_TAKEN[str(place[0]), name])
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.7)
    hint = f"; did you mean {near[0]}?" if near else ""
    listed = f"{'' if near else ';'} allowed: {', '.join(known)}" if known else ""
    return problem(field, value, f"unknown field{hint}{listed}")
