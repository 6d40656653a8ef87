"""What is wrong with a request, field by field, in the words that every service uses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shared.model.known_fields import known_fields
from shared.model.problems import FieldProblem
from shared.model.task_spec_problems import problem, problem_of_error
from shared.web.envelope import BAD_REQUEST, sentences


class WrongRequest(ValueError):
    """A request that changes nothing, because of its `problems`; `data` is that of the answer."""

    def __init__(self, problems: Iterable[FieldProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__(sentences(self.problems))

    @property
    def data(self) -> Any:
        return BAD_REQUEST


def problems_of_request(errors: Iterable[Any], body: Any = None) -> list[FieldProblem]:
    """Problems of a request that the framework refused; its part (query, body) is left out of the field.

    `body`: the model of the body, whose fields are named where one is unknown.
    """
    found = []
    for one in errors:
        place = tuple(one["loc"])
        if one["type"] == "json_invalid":
            found.append(problem("body", None, f"is not JSON: {one['ctx']['error']} (character {place[-1]})"))
        else:
            known = known_fields(body, place[1:-1]) if place[0] == "body" else []
            found.append(problem_of_error({**one, "loc": place[1:] or place}, known))
    return found
