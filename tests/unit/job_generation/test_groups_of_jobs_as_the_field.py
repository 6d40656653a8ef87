"""Groups of jobs at one candidate queue as the field's live system makes them; the sentence that decides else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from services.job_generation.splitting.limits import limits_at, refusal, totals_of
from services.job_generation.splitting.placement import Placement
from tests.unit.brokerage.conformance import sample
from tests.unit.job_generation.groups_of_jobs import in_order, placed, queue_of, task_of

CASES = sample("jobsplit")["cases"]
Case = dict[str, Any]


def field_of(number: int) -> list[Any]:
    out = CASES[number]["out"] or {"groups": []}
    return [job for group in out["groups"] for job in group["jobs"]]


def is_second_pass(case: Case, jobs: list[Any], found: Placement) -> bool:
    """The field looks at queues with a jobChunkSize first and at the others then: alone it has none in the second."""
    return not case["allow_chunk_size_limit"] and case["queue"]["job_chunk_size"] is not None


def is_merging(case: Case, jobs: list[Any], found: Placement) -> bool:
    return bool(case["task"]["merging"])


def fits_nowhere(case: Case, jobs: list[Any], found: Placement) -> bool:
    return any("bytes of scratch space" in one or "are allowed at Q" in one for one in found.reasons)


def secondary_ran_out(case: Case, jobs: list[Any], found: Placement) -> bool:
    return found.reasons == ["secondary dataset ds.sec0 has not enough unused files for another job"]


def nothing_is_left(case: Case, jobs: list[Any], found: Placement) -> bool:
    """The field leaves the rest that fills no group to other queues; there is no other here."""
    return case["queue"]["job_chunk_size"] is not None and not found.leftover and in_order(jobs)


def ranges_are_of_one_file(case: Case, jobs: list[Any], found: Placement) -> bool:
    return all(len({unit.lfn for unit in one.job.master}) == 1 for one in found.jobs)


def limits_are_kept(case: Case, jobs: list[Any], found: Placement) -> bool:
    task, queue = task_of(case), queue_of(case)
    limits = limits_at(task.needs, task.rules, queue, scout=False)
    return in_order(jobs) and all(
        len(one.job.master) == 1 or refusal(totals_of(one.job), limits, task.needs, queue, first=False) is None
        for one in found.jobs
    )


#: sentence that decides -> the samples that differ by it, and what then holds of the jobs
DIFFERENCES: dict[str, tuple[tuple[int, ...], Callable[[Case, list[Any], Placement], bool]]] = {
    "jobChunkSize: a queue is given jobs in groups, others what is left": (
        (2, 4, 8, 16, 20, 26, 27, 28), is_second_pass),
    "merge jobs are grouped by nFilesPerMergeJob, nGBPerMergeJob; their units are jobs": (
        (3, 7, 13, 15, 25), is_merging),
    "a queue is skipped where the smallest job needs more scratch space or time than it has": (
        (9, 22, 29, 37), fits_nowhere),
    "ratio=N: N files of the secondary per master file": ((10,), secondary_ran_out),
    "input that fills no group of jobChunkSize is used where no other queue takes it": ((11, 12), nothing_is_left),
    "range chunks may be merged across files only with tgtNumEventsPerJob": ((24, 31, 38), ranges_are_of_one_file),
    # the field ends a round of a repeated secondary early, and does not look at the queue's maxinputsize
    "a job ends before the first addition that violates a limit": ((5, 18, 21), limits_are_kept),
}  # fmt: skip
DIFFERING = {number for numbers, _ in DIFFERENCES.values() for number in numbers}


@pytest.mark.parametrize("number", sorted(set(range(len(CASES))) - DIFFERING))
def test_jobs_at_a_queue_are_those_of_the_field(number: int) -> None:
    assert placed(CASES[number]["in"])[0] == field_of(number)


@pytest.mark.parametrize(
    ("sentence", "number"), [(sentence, one) for sentence, (numbers, _) in DIFFERENCES.items() for one in numbers]
)
def test_jobs_at_a_queue_differ_from_the_fields_where_a_sentence_decides(sentence: str, number: int) -> None:
    case = CASES[number]["in"]
    jobs, found = placed(case)
    assert jobs != field_of(number)
    assert DIFFERENCES[sentence][1](case, jobs, found)


@pytest.mark.parametrize("number", range(len(CASES)))
def test_each_file_of_a_sample_is_in_one_job_or_left_over_with_a_reason_or_the_queue_is_full(number: int) -> None:
    case = CASES[number]["in"]
    jobs, found = placed(case)
    [master] = [one for one in case["task"]["datasets"] if one["master"]]
    used = [one for job in jobs for one in job[0][1]]
    left = [unit.file_id for unit in (*found.leftover, *found.left_out)]
    assert sorted(used + left) == sorted(one["id"] for one in master["files"])
    is_full = case["candidate"]["cap"] is not None and len(jobs) >= case["candidate"]["cap"]
    assert not left or found.reasons or is_full
