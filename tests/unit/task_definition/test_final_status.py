from __future__ import annotations

import pytest

from services.task_definition.tasks.policy.final_status import (
    TaskEnd,
    final_status,
    input_dataset_status,
    output_dataset_status,
)
from shared.model.progress import failure_rate_percent, progress_percent

ALL = {"n_files": 10, "n_files_finished": 10, "completeness_permille": 1000}
PART = {"n_files": 10, "n_files_finished": 4, "completeness_permille": 400}
NONE = {"n_files": 10, "n_files_finished": 0, "completeness_permille": 0}
EMPTY = {"n_files": 0, "n_files_finished": 0, "completeness_permille": 1000}


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"status": "tobroken", **ALL}, "broken"),
        ({"status": "toabort", **ALL}, "aborted"),
        ({"status": "paused", **NONE}, "paused"),
        ({**EMPTY, "demands_input": True}, "failed"),
        (EMPTY, "done"),
        (ALL, "done"),
        ({**ALL, "parent_status": "done"}, "done"),
        ({**ALL, "is_search": True}, "finished"),
        ({**ALL, "parent_status": "running"}, "finished"),
        ({**ALL, "parent_status": "finished"}, "finished"),
        ({**ALL, "input_open": True}, "finished"),
        ({**ALL, "parent_status": "failed"}, "failed"),
        ({**ALL, "parent_status": "broken"}, "failed"),
        ({**ALL, "parent_status": "aborted", "input_open": True}, "failed"),
        (NONE, "failed"),
        (PART, "finished"),
        ({**PART, "fail_when_goal_unreached": True}, "failed"),
        ({**PART, "fail_when_goal_unreached": True, "goal": 400}, "finished"),
        ({**PART, "fail_when_goal_unreached": True, "goal": 401}, "failed"),
        ({**PART, "use_exhausted": True}, "exhausted"),
        ({**PART, "use_exhausted": True, "goal": 400}, "finished"),
        ({**PART, "use_exhausted": True, "status": "passed"}, "finished"),
        ({**PART, "use_exhausted": True, "fail_when_goal_unreached": True}, "exhausted"),
        ({**PART, "use_exhausted": True, "fail_when_goal_unreached": True, "status": "passed"}, "failed"),
        ({**PART, "completeness_permille": 990, "goal": 990, "use_exhausted": True}, "finished"),
        ({**PART, "completeness_permille": 989, "goal": 990, "use_exhausted": True}, "exhausted"),
        ({**NONE, "use_exhausted": True, "goal": 10}, "failed"),
        ({**ALL, "use_exhausted": True, "goal": 1000}, "done"),
    ],
)
def test_the_first_rule_that_fits_decides_the_final_status(facts: dict, expected: str) -> None:
    end = final_status(TaskEnd(**{"status": "prepared", **facts}))
    assert end.status == expected
    assert end.reason


def test_master_inputs_end_by_what_was_processed_and_secondaries_with_the_task() -> None:
    found = [input_dataset_status(10, finished, is_master=True) for finished in (10, 3, 0)]
    assert found == ["done", "finished", "failed"]
    assert input_dataset_status(10, 0, is_master=False) == "done"


@pytest.mark.parametrize("task_status", ["failed", "broken", "aborted"])
def test_outputs_fail_with_their_task(task_status: str) -> None:
    assert output_dataset_status(task_status, 5, 5) == "failed"


def test_outputs_with_files_missing_are_finished() -> None:
    assert output_dataset_status("finished", 5, 4) == "finished"
    assert output_dataset_status("done", 5, 5) == "done"


def test_progress_is_100_only_when_all_is_processed() -> None:
    assert [progress_percent(1000, done) for done in (0, 999, 1000, 1001)] == [0, 99, 100, 100]
    assert progress_percent(0, 0) == 0
    assert [failure_rate_percent(9, 1), failure_rate_percent(0, 0)] == [10, 0]
