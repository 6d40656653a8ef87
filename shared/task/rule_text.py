"""Split rules as text of two-letter codes, as the field's tools write them: ``NF=5,NG=10``.

Source: JEDI, split rules.

Orrery stores rules as an object under their JSON names; this is the way in from, and out to, tools that know the codes.
Rules without a code have no place in the text: `text_of_rules` leaves them out and `rules_without_code` names them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Annotated, Any

from pydantic import TypeAdapter, ValidationError

from shared.model.problems import FieldProblem
from shared.model.task_spec_problems import problem, problem_of_error
from shared.model.whole_numbers import LARGEST_ID
from shared.task.about import About
from shared.task.refused import REFUSED_RULES, SAID_ELSEWHERE
from shared.task.rules import PREPROCESSED, FormRules, StatedRules, WorkedOutRules

_FIELDS = {**StatedRules.model_fields, **FormRules.model_fields, **WorkedOutRules.model_fields}
_CODE_OF = {name: one.code for name, field in _FIELDS.items() for one in field.metadata if isinstance(one, About)}
#: two letters -> JSON name
NAME_OF_CODE: Mapping[str, str] = {code: _FIELDS[name].alias or name for name, code in _CODE_OF.items() if code}
CODE_OF_NAME: Mapping[str, str] = {name: code for code, name in NAME_OF_CODE.items()}
_FIELD_OF_NAME = {field.alias or name: field for name, field in _FIELDS.items()}
_ATTRIBUTE_OF_NAME = {field.alias or name: name for name, field in _FIELDS.items()}
#: rules that definition works out -> the largest value
_MOST = {"uses_build": 1, "preprocessing": PREPROCESSED}
#: rules whose values are words here and numbers in the text, by attribute
_NUMBERS_OF: Mapping[str, Mapping[str, int]] = {
    "allow_input_lan": {"use": 1, "only": 2},
    "alt_stage_out": {"on": 1, "off": 2, "force": 3},
    "full_chain": {"only": 1, "require": 2, "capable": 3},
    "ip_connectivity": {"full": 1, "http": 2},
    "ip_stack": {"IPv4": 4, "IPv6": 6},
    "order_input_by": {"eventsAlignment": 1},
    "cloning": {"runonce": 1, "storeonce": 2},
}
#: values of US: the task has no scouts; it will have, or had some
_NO_SCOUTS, _SCOUTS = "1", ("2", "3")
_NAME_REFUSED = {code: name for name, (code, _) in REFUSED_RULES.items()}
#: a comma between two rules, and not within the value of one (AN=2,6)
_BETWEEN = re.compile(r",(?!\s*-?\d+\s*(?:,|$))")


_NETWORK, _STACK = NAME_OF_CODE["IP"], NAME_OF_CODE["IK"]


class InvalidRuleText(ValueError):
    """A text of split rules that cannot be read; `problems` names each part and what is allowed."""

    def __init__(self, problems: list[FieldProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(str(one) for one in problems))


def text_of_rules(rules: Mapping[str, Any]) -> str:
    """Rules as text, in the order of their codes; what is true is 1.

    Example: {"nGBPerJob": 10, "mergeOutput": true, "skipScout": true, "ipConnectivity": "http#IPv6", "tags": "GPU"} is
    "IK=6,IP=2,MO=1,NG=10,US=1": tags have no code.
    """
    given = {name: value for name, value in rules.items() if value is not None and value is not False}
    network, _, stack = str(given.get(_NETWORK, "")).partition("#")
    if stack:
        given = {**given, _NETWORK: network or None, _STACK: stack}
    coded = {CODE_OF_NAME[name]: _number(name, value) for name, value in given.items() if name in CODE_OF_NAME}
    return ",".join(f"{code}={_written(value)}" for code, value in sorted(coded.items()) if value is not None)


def _number(name: str, value: Any) -> Any:
    """The number that the text has for a word; any other value as it is."""
    return _NUMBERS_OF.get(_ATTRIBUTE_OF_NAME[name], {}).get(str(value), value)


def rules_without_code(rules: Mapping[str, Any]) -> list[str]:
    """Names of rules that the text leaves out, sorted."""
    return sorted(name for name in rules if name not in CODE_OF_NAME)


def rules_of_text(text: str) -> dict[str, Any]:
    """Rules under their JSON names. Raises InvalidRuleText with every problem.

    Example: "NF=5,US=1,IP=2" is {"nFilesPerJob": 5, "skipScout": true, "ipConnectivity": "http"}. A value is checked
    by the type and range of its parameter.
    """
    found: dict[str, Any] = {}
    problems: list[FieldProblem] = []
    for part in filter(None, (one.strip() for one in _BETWEEN.split(text))):
        code, equals, value = part.partition("=")
        name = NAME_OF_CODE.get(code.strip())
        if not equals or name is None:
            problems.append(problem("splitRule", part, _why_no_rule(code.strip())))
        elif name in found:
            problems.append(problem("splitRule", part, f"{code} is given twice"))
        else:
            try:
                found[name] = _checked(name, _read(name, value.strip()))
            except InvalidRuleText as error:
                problems += error.problems
    if problems:
        raise InvalidRuleText(problems)
    return found


def _checked(name: str, value: Any) -> Any:
    """One rule's value, checked by its type and range. Raises InvalidRuleText."""
    attribute = _ATTRIBUTE_OF_NAME[name]
    if attribute in WorkedOutRules.model_fields:
        most = _MOST.get(attribute, LARGEST_ID)
        if type(value) is int and 0 <= value <= most:
            return value
        raise InvalidRuleText([problem(name, value, f"allowed: a whole number from 0 to {most}")])
    try:
        return _type_of(name).validate_python(value)
    except ValidationError as error:
        told = [problem_of_error(dict(one), [], "") for one in error.errors(include_url=False)]
        raise InvalidRuleText([replace(one, field=name) for one in told]) from None


@cache
def _type_of(name: str) -> TypeAdapter[Any]:
    """What checks the values of one rule."""
    field = _FIELD_OF_NAME[name]
    kind: Any = Annotated[(field.annotation, *field.metadata)]
    return TypeAdapter(kind)


def _written(value: Any) -> str:
    return "1" if value is True else str(value)


def _read(name: str, value: str) -> Any:
    if name == NAME_OF_CODE["US"]:
        return {_NO_SCOUTS: True, **dict.fromkeys(_SCOUTS, False)}.get(value, value)
    words = {str(number): word for word, number in _NUMBERS_OF.get(_ATTRIBUTE_OF_NAME[name], {}).items()}
    if value in words:
        return words[value]
    return int(value) if value.removeprefix("-").isdigit() else value


def _why_no_rule(code: str) -> str:
    """Why two letters stand for nothing that could be set."""
    if code in SAID_ELSEWHERE:
        return f"{code} is no rule here: {SAID_ELSEWHERE[code]}"
    if (refused := _NAME_REFUSED.get(code)) is not None:
        return f"{code} is {refused}: {REFUSED_RULES[refused][1]}"
    return f"allowed: CODE=value with {', '.join(sorted(NAME_OF_CODE))}"
