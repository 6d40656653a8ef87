"""Jobs of job sets are told in plain words how they ended."""

from __future__ import annotations

from typing import get_args

import pytest

from services.job_generation.kinds.event_service.policy.endings import SubStatus
from services.task_definition.tasks.policy.sub_statuses import SUB_STATUSES, job_meaning


def test_every_sub_status_has_words() -> None:
    assert set(SUB_STATUSES) == set(get_args(SubStatus))


@pytest.mark.parametrize("sub_status", [one for one in SUB_STATUSES if one != "es_unused"])
def test_a_closed_job_that_ran_is_not_said_to_be_taken_back_before_it_ran(sub_status: str) -> None:
    told = job_meaning("closed", sub_status)
    assert told == f"{SUB_STATUSES[sub_status]} ({sub_status})" and "before it ran" not in told


def test_other_jobs_are_told_as_their_state_with_the_words_of_the_sub_status_behind() -> None:
    assert job_meaning("closed", None) == "taken back by the system before it ran"
    assert job_meaning("failed", "pilot_failed") == "did not succeed; its pilot reported an error (pilot_failed)"
    assert job_meaning("closed", "es_unused").startswith("taken back by the system before it ran, as")
