"""Problems of what was sent, each with its field, its value and what is allowed there."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping
from typing import Any

from shared.model.problems import FieldProblem
from shared.model.steps import Steps, at_once
from shared.model.whole_numbers import LARGEST_INT8

SHOWN_VALUE_LENGTH = 80
#: so many names of fields are listed where one is unknown
FEW_FIELDS = 20
DEEPEST, MOST_UNSTORABLE = 50, 100
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
#: members of a list or object that are written out in a problem
_SHOWN_MEMBERS = 1000

#: pydantic's error types in the words of this system; {names} come from the error's context
_ALLOWED = {
    "missing": "is needed",
    "string_type": "a text",
    "string_too_short": "a text that is not empty",
    "string_too_long": "at most {max_length} characters",
    "string_pattern_mismatch": "a text that matches {pattern}",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number of at most 8 bytes",
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


def problem(field: str, value: Any, allowed: str) -> FieldProblem:
    """A problem with the value cut to a readable length."""
    if isinstance(value, (list, dict)) and len(value) > _SHOWN_MEMBERS:
        text = f"{'a list' if isinstance(value, list) else 'an object'} of {len(value)}"
    else:
        text = "" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)
    if len(text) > SHOWN_VALUE_LENGTH:
        text = f"{text[:SHOWN_VALUE_LENGTH]}... ({len(str(value))} characters)"
    shown = field.encode("utf-8", "backslashreplace").decode()
    return FieldProblem(shown or "''", text, allowed)


def unstorable_values(value: Any, field: str = "") -> list[FieldProblem]:
    """Values that JSON may hold and the database does not keep, wherever they are.

    They are the character NUL, half a surrogate pair, a whole number of more than 8 bytes, not-a-number, nesting
    without end.
    """
    return at_once(unstorable_in_steps(value, field))


def unstorable_in_steps(value: Any, field: str = "") -> Steps[list[FieldProblem]]:
    """The same, a list or object or some of its members in each step."""
    found: list[FieldProblem] = []
    yield from _find_unstorable(value, field, 0, found)
    return found


def _find_unstorable(value: Any, field: str, depth: int, found: list[FieldProblem]) -> Steps[None]:
    if len(found) >= MOST_UNSTORABLE:
        return
    if depth > DEEPEST:
        found.append(problem(field, None, f"allowed: at most {DEEPEST} levels of nesting"))
    elif isinstance(value, Mapping):
        for name, one in value.items():
            yield
            path = f"{field}.{name}".removeprefix(".")
            _check_storable(str(name), path, found)
            yield from _find_unstorable(one, path, depth + 1, found)
    elif isinstance(value, list):
        for place, one in enumerate(value):
            yield
            yield from _find_unstorable(one, f"{field}.{place}".removeprefix("."), depth + 1, found)
    else:
        _check_storable(value, field, found)


def _check_storable(value: Any, field: str, found: list[FieldProblem]) -> None:
    if isinstance(value, str):
        if _UNSTORABLE.search(value):
            found.append(problem(field, value, "allowed: a text without the character NUL and without half a pair"))
    elif type(value) is int and not -LARGEST_INT8 - 1 <= value <= LARGEST_INT8:
        found.append(problem(field, value, "allowed: a whole number of at most 8 bytes"))
    elif isinstance(value, float) and not math.isfinite(value):
        found.append(problem(field, value, "allowed: a finite number"))


def problem_of_error(one: Any, known: list[str], prefix: str = "") -> FieldProblem:
    """One of pydantic's errors (``ValidationError.errors()``) in the words of this system."""
    field = (prefix + ".".join(str(part) for part in one["loc"])).removesuffix("." if not one["loc"] else "")
    kind, context = one["type"], one.get("ctx") or {}
    if kind == "extra_forbidden":
        near = difflib.get_close_matches(str(one["loc"][-1]), known, n=1, cutoff=0.7)
        hint = f"; did you mean {near[0]}?" if near else ""
        if not hint and 0 < len(known) <= FEW_FIELDS:
            hint = f"; allowed: {', '.join(known)}"
        return problem(field, one["input"], f"unknown field{hint}")
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
