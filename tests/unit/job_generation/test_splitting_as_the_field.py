"""Jobs as the field's live system cuts them, for limits by files, events and size.

A difference: the live system joins ranges of events of several files wherever nothing else ends a job. The
specification lets only tgtNumEventsPerJob join them, so such a job ends with its file here.
"""

from __future__ import annotations

from typing import Any

import pytest

from services.job_generation.policy.limits import JobSizeLimits
from services.job_generation.policy.rules import rules_of
from services.job_generation.policy.splitting import cut_one
from services.job_generation.policy.values import Unit
from shared.model.needs import WorkNeeds
from tests.unit.brokerage.conformance import sample
from tests.unit.job_generation.made import a_queue

CASES = sample("subchunk")["cases"]
NO_LIMIT = 1e18
#: the case of ranges without any rule
JOINS_FILES = 1


def rule_of(given: dict[str, Any]) -> dict[str, Any]:
    return {
        "nEventsPerJob": given["nEventsPerJob"],
        "nFilesPerJob": given["nFilesPerJob"],
        "respectLB": given["respectLB"],
        "groupBoundaryID": 1 if given["useBoundary"] else None,
    }


def cut(case: dict[str, Any]) -> list[list[int]]:
    """File ids of each job until the input is used up."""
    given, per_event = case["args"], "PerEvent" in case["out_disk_unit"]
    output = given["sizeGradients"] or 0
    needs = WorkNeeds(
        output_bytes_per_event=output if per_event else 0,
        output_bytes_per_input_mb=0 if per_event else output,
        work_dir_bytes=given["sizeIntercepts"] or 0,
    )
    limits = JobSizeLimits(
        max_files=given["nFilesPerJob"] or given["maxNumFiles"] or 200,
        max_events=given["nEventsPerJob"],
        job_bytes=given["maxSize"],
        output_bytes=given["maxOutSize"] or NO_LIMIT,
    )
    units = [
        Unit(
            one["id"],
            one["lfn"],
            one["size"],
            one["events"] if one["start"] is None else None,
            one["start"],
            one["end"],
            None,
            one["boundary"],
            one["lumiblock"],
            1,
            file_events=one["events"],
        )
        for one in case["files"]
    ]
    rules, position, jobs = rules_of(rule_of(given)), 0, []
    while position < len(units):
        one = cut_one(units, position, [], limits, rules, needs, a_queue())
        assert one.job is not None, one.reason
        jobs.append([unit.file_id for unit in one.job.master])
        position = one.position
    return jobs


@pytest.mark.parametrize("number", sorted(set(range(len(CASES))) - {JOINS_FILES}))
def test_jobs_are_cut_as_the_field_cuts_them(number: int) -> None:
    assert cut(CASES[number]["in"]) == CASES[number]["out"]


def test_without_a_target_number_of_events_ranges_of_two_files_are_in_two_jobs() -> None:
    case = CASES[JOINS_FILES]
    files = {one["id"]: one["lfn"] for one in case["in"]["files"]}
    jobs = cut(case["in"])
    assert all(len({files[one] for one in job}) == 1 for job in jobs)
    assert [one for job in jobs for one in job] == [one for job in case["out"] for one in job]
