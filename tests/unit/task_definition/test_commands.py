from __future__ import annotations

import pytest

from services.task_definition.tasks.policy import commands as rules
from shared.states import TASK, Owner

OVER = ["finished", "done", "prepared", "broken", "aborted", "toabort", "aborting", "failed"]


@pytest.mark.parametrize("command", ["kill", "finish"])
@pytest.mark.parametrize("status", OVER)
def test_kill_and_finish_are_refused_for_tasks_that_are_over(command: str, status: str) -> None:
    refusal = rules.refuse(command, status)
    assert refusal is not None and refusal.code == rules.IRRELEVANT
    assert command in refusal.reason and status in refusal.reason


@pytest.mark.parametrize("command", ["kill", "finish"])
@pytest.mark.parametrize("status", ["registered", "defined", "assigning", "ready", "scouting", "running", "pending",
                                    "paused", "throttled", "exhausted"])  # fmt: skip
def test_kill_and_finish_are_accepted_for_every_task_that_is_under_way(command: str, status: str) -> None:
    assert rules.refuse(command, status) is None


@pytest.mark.parametrize("status", ["finished", "failed", "done", "aborted", "broken", "paused"])
def test_pause_is_refused_for_what_has_ended_or_is_paused(status: str) -> None:
    assert rules.refuse("pause", status) is not None


def test_retry_is_for_tasks_that_ended_without_everything() -> None:
    accepted = {status for status in TASK.meanings if rules.refuse("retry", status) is None}
    assert accepted == {"finished", "failed", "aborted", "exhausted"}


def test_every_accepted_first_transition_is_in_the_published_graph() -> None:
    first = {"kill": "aborting", "finish": "finishing", "retry": "toretry", "pause": "paused", "reassign": "toreassign"}
    for command, target in first.items():
        for status in rules.ACCEPTED[command]:
            TASK.check(status, target, Owner.TASK_DEFINITION)
            assert (status, target) in TASK.edges()


def test_broken_tasks_are_never_opened_again() -> None:
    assert not any("broken" in accepted for accepted in rules.ACCEPTED.values())


@pytest.mark.parametrize(
    ("status", "old_status", "kept"),
    [("running", None, "running"), ("pending", "scouting", "scouting"), ("throttled", "running", "running"),
     ("pending", None, "pending"), ("exhausted", "running", "exhausted")],
)  # fmt: skip
def test_a_pause_keeps_the_state_behind_one_that_only_waits(status: str, old_status: str | None, kept: str) -> None:
    assert rules.status_to_return_to(status, old_status) == kept
    assert ("paused", kept) in TASK.edges()


def test_what_a_retried_task_goes_on_with() -> None:
    assert rules.retried_status("finished", None, has_scout_data=True) == "ready"
    assert rules.retried_status("exhausted", "scouting", has_scout_data=False) == "scouting"
    assert rules.retried_status("exhausted", "scouting", has_scout_data=True) == "running"
    assert rules.retried_status("exhausted", None, has_scout_data=True) == "ready"


def test_a_reassigned_task_without_a_target_goes_back_to_the_task_brokerage() -> None:
    assert rules.reassigned_status("running", has_target=False) == "assigning"
    assert rules.reassigned_status("running", has_target=True) == "running"
    assert rules.reassigned_status("assigning", has_target=True) == "ready"


@pytest.mark.parametrize("has_target", [True, False])
def test_a_task_that_is_reassigned_before_its_input_is_known_goes_on_with_its_definition(has_target: bool) -> None:
    assert rules.reassigned_status("defined", has_target=has_target) == "defined"
    for waited_as in ("registered", "rerefine", "staged"):
        assert rules.reassigned_status(waited_as, has_target=has_target) == "pending"
        assert ("reassigning", "pending") in TASK.edges() and ("pending", waited_as) in TASK.edges()
