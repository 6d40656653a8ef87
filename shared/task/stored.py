"""Rules as table `tasks` keeps them: an object of their JSON names."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from shared.task.in_effect import SplitRules
from shared.task.rules import StatedRules


@cache
def _names() -> Mapping[str, str]:
    return {attribute: field.alias or attribute for attribute, field in SplitRules.model_fields.items()}


def name_of(attribute: str) -> str:
    """The JSON name of a rule: n_files_per_job is nFilesPerJob. Raises KeyError."""
    return _names()[attribute]


def stored_rules(stated: StatedRules, **worked_out: Any) -> dict[str, Any]:
    """Every rule that was stated, with those that follow from them; flags only when true."""
    found = {name: getattr(stated, name) for name in StatedRules.model_fields if name in stated.model_fields_set}
    return with_rules({}, **{name: value for name, value in found.items() if value is not False} | worked_out)


def named(**values: Any) -> dict[str, Any]:
    """The values of rules, given by attribute, under their JSON names."""
    return {name_of(attribute): value for attribute, value in values.items()}


def with_rules(stored: Mapping[str, Any], **changed: Any) -> dict[str, Any]:
    """The stored rules with others in place, by attribute; None takes one away.

    Example: {"nGBPerJob": 10, "nFilesPerJob": 2} with n_gb_per_job=5 and n_files_per_job=None is {"nGBPerJob": 5}.
    """
    found = {**stored, **named(**changed)}
    return {name: value for name, value in found.items() if value is not None}


#: rules that say how much input is taken
COUNTED = frozenset(named(n_files=None, n_events=None))
