"""A large task is checked an item at a time, with the problems of a check of the whole."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter

from services.task_definition.tasks.policy.task_spec import parse_task, task_in_steps
from services.task_definition.tasks.policy.task_spec_problems import InvalidTask
from shared.model.steps import at_once
from tests.handlers.task_definition.world import production


def with_items(*items: Any, **fields: Any) -> dict[str, Any]:
    task = production(**fields)
    return {**task, "jobParameters": [*task["jobParameters"], *items]}


CONSTANT = {"type": "constant", "value": "x"}
N_BEFORE = len(production()["jobParameters"])


def test_each_item_of_a_task_is_checked_in_a_step_of_its_own() -> None:
    task = with_items(*[CONSTANT] * 500)
    assert sum(1 for _ in task_in_steps(task)) > 4 * 500  # as sent, as items, between them, and their placeholders
    assert at_once(task_in_steps(task)) == parse_task(task)
    assert parse_task(task).submitted == task and len(parse_task(task).parameters.job_parameters) == N_BEFORE + 500


def test_the_files_of_an_item_are_checked_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    check = TypeAdapter.validate_python

    def counted(self: Any, members: Any) -> Any:
        sizes.append(len(members))
        return check(self, members)

    monkeypatch.setattr(TypeAdapter, "validate_python", counted)
    names = [f"file{n}" for n in range(3210)]
    task = production()
    place = next(n for n, item in enumerate(task["jobParameters"]) if item.get("param_type") == "input")
    task["jobParameters"][place]["files"] = names
    assert parse_task(task).parameters.job_parameters[place].files == names
    assert max(sizes) == 500 and sum(sizes) == 3210
    task["jobParameters"][place]["files"] = [*names, "", *names, 7]
    with pytest.raises(InvalidTask) as refused:
        parse_task(task)
    prefix = f"jobParameters.{place}.files"
    assert [one.field for one in refused.value.problems] == [f"{prefix}.3210", f"{prefix}.6421"]


@pytest.mark.parametrize(
    ("task", "fields"),
    [
        (with_items(3, {"type": "odd"}), [f"jobParameters.{N_BEFORE}", f"jobParameters.{N_BEFORE + 1}.type"]),
        (production(jobParameters=[{"typ": "constant"}]), ["jobParameters.0.type", "jobParameters.0.typ"]),
        (production(jobParameters=[]), ["jobParameters"]),
        (production(jobParameters=[CONSTANT] * 1001), ["jobParameters"]),
        (production(jobParameters="none", vo="v" * 20), ["vo", "jobParameters"]),
        (with_items(3, coreCount="x", colour="red"), [f"jobParameters.{N_BEFORE}", "coreCount", "colour"]),
    ],
)
def test_what_is_wrong_in_an_item_is_told_with_its_place_in_the_order_of_the_fields(
    task: dict[str, Any], fields: list[str]
) -> None:
    with pytest.raises(InvalidTask) as refused:
        parse_task(task)
    assert [one.field for one in refused.value.problems] == fields
