"""Tasks that are refused."""

from __future__ import annotations

from typing import Any

import pytest

from services.task_definition.tasks.policy.task_spec import parse_task
from services.task_definition.tasks.policy.task_spec_problems import InvalidTask


def problems_of(parameters: Any) -> dict[str, str]:
    """What is allowed, by each field of a task that is refused."""
    with pytest.raises(InvalidTask) as refused:
        parse_task(parameters)
    return {one.field: one.allowed for one in refused.value.problems}


def sentences_of(parameters: Any) -> dict[str, str]:
    """The value and what is allowed, by each field of a task that is refused."""
    with pytest.raises(InvalidTask) as refused:
        parse_task(parameters)
    return {one.field: f"{one.value} {one.allowed}" for one in refused.value.problems}
