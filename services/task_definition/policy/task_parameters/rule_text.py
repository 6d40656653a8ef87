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

from services.task_definition.policy.preprocessing import DONE
from services.task_definition.policy.task_parameters.refused import REFUSED
from services.task_definition.policy.task_parameters.table import FACTS, TaskParameters
from shared.model.problems import FieldProblem
from shared.model.task_spec_problems import problem, problem_of_error
from shared.model.whole_numbers import LARGEST_ID

#: two letters -> JSON name; DY, RS, UB and UP stand for rules that definition works out
NAME_OF_CODE: Mapping[str, str] = {about.code: name for name, about in FACTS.items() if about.code} | {
    "DY": "dynamicNumEvents",
    "RS": "randomSeedOffset",
    "UB": "useBuild",
    "UP": "usePrePro",
    "US": "skipScout",
}
CODE_OF_NAME: Mapping[str, str] = {name: code for code, name in NAME_OF_CODE.items()}
#: rules that definition works out -> the largest value
_DERIVED = {"dynamicNumEvents": LARGEST_ID, "randomSeedOffset": LARGEST_ID, "useBuild": 1, "usePrePro": DONE}
#: rules whose values are words here and numbers in the text
NUMBERS_OF: Mapping[str, Mapping[str, int]] = {
    "allowInputLAN": {"use": 1, "only": 2},
    "altStageOut": {"on": 1, "off": 2, "force": 3},
    "fullChain": {"only": 1, "require": 2, "capable": 3},
    "ipConnectivity": {"full": 1, "http": 2},
    "ipStack": {"IPv4": 4, "IPv6": 6},
    "orderInputBy": {"eventsAlignment": 1},
    "useJobCloning": {"runonce": 1, "storeonce": 2},
}
#: values of US: the task has no scouts; it will have, or had some
_NO_SCOUTS, _SCOUTS = "1", ("2", "3")
#: codes of the field whose rules are not carried out -> name of the parameter
_CODES_REFUSED = {
    "IW": "allowInputWAN", "OS": "osMatching", "PJ": "pushJob", "RE": "registerEsFiles", "SE": "switchEStoNormal",
    "UZ": "useZipToPin", "WH": "workflowHoldup",
}  # fmt: skip
#: codes for what is no rule here -> where it is said instead
_SAID_ELSEWHERE = {
    "FC": "whether input was read before is the state of its datasets",
    "FT": "the first event is the offset of the item with ${FIRSTEVENT}",
    "IA": "a dataset of a site knows its template by its own row",
    "IT": "a dataset of a site knows its template by its own row",
    "LS": "sites are limited by the lists includedSite and excludedSite",
    "LX": "the jobs are described by the parameter loadXML",
    "MS": "the steps are the parameter multiStepExec",
    "PL": "the files are the parameter pfnList",
    "RD": "whether a dataset is registered is its own state",
    "RM": "rules of retries are set by operators, for tasks that match them (orrery retry-rules)",
}
#: a comma between two rules, and not within the value of one (AN=2,6)
_BETWEEN = re.compile(r",(?!\s*-?\d+\s*(?:,|$))")


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
    network, _, stack = str(given.get("ipConnectivity", "")).partition("#")
    if stack:
        given = {**given, "ipConnectivity": network or None, "ipStack": stack}
    coded = {CODE_OF_NAME[name]: _number(name, value) for name, value in given.items() if name in CODE_OF_NAME}
    return ",".join(f"{code}={_written(value)}" for code, value in sorted(coded.items()) if value is not None)


def _number(name: str, value: Any) -> Any:
    """The number that the text has for a word; any other value as it is."""
    return NUMBERS_OF.get(name, {}).get(str(value), value)


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
                found[name] = checked_value(name, _read(name, value.strip()))
            except InvalidRuleText as error:
                problems += error.problems
    if problems:
        raise InvalidRuleText(problems)
    return found


def checked_value(name: str, value: Any) -> Any:
    """One rule's value, checked by its parameter. Raises InvalidRuleText, also for an unknown name."""
    if name in _DERIVED:
        if type(value) is int and 0 <= value <= _DERIVED[name]:
            return value
        raise InvalidRuleText([problem(name, value, f"allowed: a whole number from 0 to {_DERIVED[name]}")])
    if name not in FACTS:
        raise InvalidRuleText([problem(name, value, f"unknown; allowed: {', '.join(sorted(CODE_OF_NAME))}")])
    try:
        return _type_of(name).validate_python(value)
    except ValidationError as error:
        told = [problem_of_error(dict(one), sorted(FACTS), "") for one in error.errors(include_url=False)]
        raise InvalidRuleText([replace(one, field=name) for one in told]) from None


@cache
def _type_of(name: str) -> TypeAdapter[Any]:
    """What checks the values of one parameter."""
    [field] = [one for key, one in TaskParameters.model_fields.items() if (one.alias or key) == name]
    kind: Any = Annotated[(field.annotation, *field.metadata)]
    return TypeAdapter(kind)


def _written(value: Any) -> str:
    return "1" if value is True else str(value)


def _read(name: str, value: str) -> Any:
    if name == "skipScout":
        return {_NO_SCOUTS: True, **dict.fromkeys(_SCOUTS, False)}.get(value, value)
    words = {str(number): word for word, number in NUMBERS_OF.get(name, {}).items()}
    if value in words:
        return words[value]
    return int(value) if value.removeprefix("-").isdigit() else value


def _why_no_rule(code: str) -> str:
    """Why two letters stand for nothing that could be set."""
    if code in _SAID_ELSEWHERE:
        return f"{code} is no rule here: {_SAID_ELSEWHERE[code]}"
    refused = _CODES_REFUSED.get(code)
    if refused in REFUSED:
        return f"{code} is {refused}: {REFUSED[refused]}"
    return f"allowed: CODE=value with {', '.join(sorted(NAME_OF_CODE))}"
