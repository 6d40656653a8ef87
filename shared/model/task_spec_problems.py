"""What is wrong with a submitted task: every problem with its field, its value and what is allowed there."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

SHOWN_VALUE_LENGTH = 80
DEEPEST, MOST_UNSTORABLE = 50, 100

#: pydantic's error types in the words of this system; {names} come from the error's context
_ALLOWED = {
    "missing": "is needed",
    "string_type": "a text",
    "string_too_short": "a text that is not empty",
    "string_too_long": "at most {max_length} characters",
    "string_pattern_mismatch": "a text that matches {pattern}",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "greater_than_equal": "{ge} or more",
    "greater_than": "more than {gt}",
    "less_than_equal": "{le} or less",
    "less_than": "less than {lt}",
    "literal_error": "{expected}",
    "enum": "{expected}",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "too_short": "at least {min_length} of them",
    "too_long": "at most {max_length} of them",
}


@dataclass(frozen=True, order=True)
class TaskProblem:
    """One thing wrong: `field` as in the JSON (``jobParameters.2.dataset``), the value found, what is allowed."""

    field: str
    value: str
    allowed: str

    def __str__(self) -> str:
        return f"{self.field} = {self.value}: {self.allowed}" if self.value else f"{self.field}: {self.allowed}"


class InvalidTask(ValueError):
    """A task that was refused; `problems` lists everything that is wrong with it. `spec`: its TaskSpec if each field by
    itself is valid, so that the world can be asked about those fields as well."""

    def __init__(self, problems: Iterable[TaskProblem], spec: Any = None) -> None:
        self.problems, self.spec = tuple(dict.fromkeys(problems)), spec
        super().__init__("; ".join(str(problem) for problem in self.problems))


def problem(field: str, value: Any, allowed: str) -> TaskProblem:
    """A problem with the value cut to a readable length."""
    text = "" if value is None else repr(value)
    if len(text) > SHOWN_VALUE_LENGTH:
        text = f"{text[:SHOWN_VALUE_LENGTH]}... ({len(str(value))} characters)"
    shown = field.encode("utf-8", "backslashreplace").decode()
    return TaskProblem(shown or "''", text, allowed)


def unstorable_values(value: Any, field: str = "") -> list[TaskProblem]:
    """What JSON may hold and the database does not keep, wherever it is: the character NUL, half a surrogate pair, a
    whole number of more than 8 bytes, not-a-number, nesting without end."""
    found: list[TaskProblem] = []
    _find_unstorable(value, field, 0, found)
    return found


def _find_unstorable(value: Any, field: str, depth: int, found: list[TaskProblem]) -> None:
    if len(found) >= MOST_UNSTORABLE:
        return
    if depth > DEEPEST:
        found.append(problem(field, None, f"allowed: at most {DEEPEST} levels of nesting"))
    elif isinstance(value, str):
        if "\x00" in value or any("\ud800" <= one <= "\udfff" for one in value):
            found.append(problem(field, value, "allowed: a text without the character NUL and without half a pair"))
    elif isinstance(value, Mapping):
        for name, one in value.items():
            path = f"{field}.{name}".removeprefix(".")
            _find_unstorable(str(name), path, depth, found)
            _find_unstorable(one, path, depth + 1, found)
    elif isinstance(value, list):
        for place, one in enumerate(value):
            _find_unstorable(one, f"{field}.{place}".removeprefix("."), depth + 1, found)
    elif type(value) is int and not -(2**63) <= value < 2**63:
        found.append(problem(field, value, "allowed: a whole number of at most 8 bytes"))
    elif isinstance(value, float) and not math.isfinite(value):
        found.append(problem(field, value, "allowed: a finite number"))


def problems_of_task(error: ValidationError, known_fields: Iterable[str], prefix: str = "") -> list[TaskProblem]:
    """Every error of a pydantic validation; an unknown field names the nearest known one."""
    known = sorted(known_fields)
    return [problem_of_error(one, known, prefix) for one in error.errors(include_url=False)]


def problems_of_request(errors: Iterable[Any]) -> list[TaskProblem]:
    """Those of a request that the framework refused; where in the request a field was (query, body) is left out."""
    found = []
    for one in errors:
        place = tuple(one["loc"])
        if one["type"] == "json_invalid":
            found.append(problem("body", None, f"is not JSON: {one['ctx']['error']} (character {place[-1]})"))
        else:
            found.append(problem_of_error({**one, "loc": place[1:] or place}, []))
    return found


def problem_of_error(one: Any, known: list[str], prefix: str = "") -> TaskProblem:
    """One of pydantic's errors (``ValidationError.errors()``) in the words of this system."""
    field = prefix + ".".join(str(part) for part in one["loc"])
    kind, context = one["type"], one.get("ctx") or {}
    if kind == "extra_forbidden":
        near = difflib.get_close_matches(str(one["loc"][-1]), known, n=1, cutoff=0.7)
        return problem(field, one["input"], "unknown field" + (f"; did you mean {near[0]}?" if near else ""))
    if kind == "missing":
        return problem(field, None, _ALLOWED[kind])
    if kind == "value_error":
        return problem(field, one["input"], str(context.get("error", one["msg"])))
    wanted = _ALLOWED.get(kind)
    try:
        text = f"allowed: {wanted.format(**context)}" if wanted else one["msg"]
    except KeyError:
        text = one["msg"]
    return problem(field, one["input"], text)
