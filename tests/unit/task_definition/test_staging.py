"""Which stage-ins begin, where they go, and which are refused."""

from __future__ import annotations

import pytest

from services.task_definition.tasks.policy.staging import TB_BYTES, StageIn, StagingLimits, beginning, too_large

LIMITS = StagingLimits(at_once_of_user_tb=10, at_once_of_tape_tb=15)


def wanted(number: int, tb: float, user: str = "ada", tape: str = "TAPE") -> StageIn:
    return StageIn(number, ("atlas", user), tape, int(tb * TB_BYTES))


@pytest.mark.parametrize(("tb", "limit", "refused"), [(301, 300, True), (300, 300, False), (9999, -1, False)])
def test_a_dataset_that_is_too_large_is_not_staged_for_analysis(tb: int, limit: float, refused: bool) -> None:
    said = too_large("data.raw", tb * TB_BYTES, StagingLimits(most_of_dataset_tb=limit))
    assert (said is not None) is refused
    if said:
        assert said == "input data.raw of 301.0 TB is on tape; allowed for analysis: 300 TB"


def test_a_person_has_only_so_much_staged_at_a_time_and_the_others_go_on() -> None:
    found = beginning([wanted(2, 4), wanted(3, 4, "bob"), wanted(4, 2)], [wanted(1, 7)], LIMITS)
    assert [one.stage_in_id for one in found] == [3, 4]


def test_a_tape_has_only_so_much_staged_at_a_time() -> None:
    waiting = [wanted(2, 8, "bob"), wanted(3, 8, "bob", "OTHER"), wanted(4, 5, "cyd")]
    found = beginning(waiting, [wanted(1, 9)], StagingLimits(at_once_of_user_tb=0, at_once_of_tape_tb=15))
    assert [one.stage_in_id for one in found] == [3, 4]


def test_what_is_larger_than_a_limit_begins_when_nothing_else_is_staged() -> None:
    assert [one.stage_in_id for one in beginning([wanted(1, 99)], [], LIMITS)] == [1]
    assert beginning([wanted(2, 99)], [wanted(1, 1)], LIMITS) == []
