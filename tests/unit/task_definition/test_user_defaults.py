"""What operators set for analysis tasks that do not say it themselves."""

from __future__ import annotations

from typing import Any

import pytest

from services.task_definition.tasks.policy.user_defaults import UserDefaults, with_user_defaults
from shared.config.parameters import Parameters

TASK = {"taskName": "user.ada.one", "prodSourceLabel": "user", "taskType": "anal", "taskPriority": 1000}


def test_without_any_setting_a_task_of_a_user_has_at_most_sixteen_cores_and_stays_else_as_it_came() -> None:
    assert with_user_defaults(TASK, Parameters().filled(UserDefaults)) == {**TASK, "maxCoreCount": 16}


@pytest.mark.parametrize(
    ("defaults", "given", "expected"),
    [
        ({"out_disk_kb": 900}, {}, {"outDiskCount": 900, "outDiskUnit": "kB"}),
        ({"out_disk_kb": 900}, {"outDiskCount": 3}, {}),
        ({"max_walltime_h": 12}, {}, {"maxWalltime": 12}),
        ({"max_walltime_h": 12}, {"maxWalltime": 48}, {}),
        ({"moved_percent": 100}, {}, {"taskPriority": 1001, "currentPriority": 1000}),
        ({"moved_percent": 100}, {"currentPriority": 950}, {"taskPriority": 1001}),
        ({"max_core_count": 4}, {}, {"maxCoreCount": 4}),
        ({"max_core_count": 4}, {"maxCoreCount": 64}, {}),
        ({"max_core_count": 4}, {"coreCount": 8}, {"maxCoreCount": None}),
    ],
)
def test_what_is_set_holds_for_what_the_task_does_not_say(
    defaults: dict[str, Any], given: dict[str, Any], expected: dict[str, Any]
) -> None:
    task = {**TASK, **given}
    wanted = {"maxCoreCount": 16, **task, **expected}
    found = with_user_defaults(task, UserDefaults(**defaults))
    assert found == {name: value for name, value in wanted.items() if value is not None}


def test_as_many_tasks_have_their_input_moved_as_are_wanted_and_the_same_task_always() -> None:
    tasks = [{**TASK, "taskName": f"user.ada.{number}"} for number in range(1000)]
    first, second = (
        [with_user_defaults(one, UserDefaults(moved_percent=30))["taskPriority"] == 1001 for one in tasks]
        for _ in range(2)
    )
    assert first == second and 250 < sum(first) < 350


def test_production_is_left_as_it_is() -> None:
    task = {**TASK, "prodSourceLabel": "managed", "taskType": "prod"}
    everything = UserDefaults(out_disk_kb=1, max_walltime_h=1, moved_percent=100, max_core_count=1)
    assert with_user_defaults(task, everything) == task
