"""Jobs as the field's live system cuts them; where they differ, the sentence that decides, and that it is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.brokerage.conformance import sample
from tests.unit.job_generation.subchunks import MOST_JOBS, Jobs, cut, pool_of

CASES = sample("subchunk")["cases"]
Case = dict[str, Any]


def master_files(case: Case) -> dict[int, dict[str, Any]]:
    [master] = [one for one in case["task"]["datasets"] if one["master"]]
    return {one["id"]: one for one in master["files"]}


def jobs_of_master(case: Case, jobs: Jobs) -> list[list[dict[str, Any]]]:
    files = master_files(case)
    return [[files[one] for one in job[0][1]] for job in jobs]


def boundaries_are_whole(case: Case, jobs: Jobs, why: str) -> bool:
    sizes: dict[int, int] = {}
    for one in master_files(case).values():
        sizes[one["boundary"]] = sizes.get(one["boundary"], 0) + 1
    found = jobs_of_master(case, jobs)
    return all(len(job) == sizes[job[0]["boundary"]] and len({one["boundary"] for one in job}) == 1 for job in found)


def scratch_space_is_kept(case: Case, jobs: Jobs, why: str) -> bool:
    if "bytes of scratch space" in why:
        return True
    task, limit = case["task"], case["args"]["maxDiskSize"]
    assert task["out_disk"][1] == "kBPerEvent" and case["args"]["useDirectIO"] is False
    work = case["args"]["sizeIntercepts"]
    out = case["args"]["sizeGradients"]
    for job in jobs_of_master(case, jobs):
        read = sum({one["lfn"]: one["size"] for one in job}.values())
        events = sum(one["end"] - one["start"] + 1 for one in job)
        if read + max(out * events, 2**29) + work > limit:
            return False
    return True


def secondary_ran_out(case: Case, jobs: Jobs, why: str) -> bool:
    return "has not enough unused files for another job" in why


def ranges_are_of_one_file(case: Case, jobs: Jobs, why: str) -> bool:
    return all(len({one["lfn"] for one in job}) == 1 for job in jobs_of_master(case, jobs))


def events_are_counted(case: Case, jobs: Jobs, why: str) -> bool:
    limit = case["args"]["nEventsPerJob"]
    found = jobs_of_master(case, jobs)
    return all(len(job) == 1 or sum(one["events"] or 1 for one in job) <= limit for job in found)


def input_is_counted(case: Case, jobs: Jobs, why: str) -> bool:
    limit = case["args"]["maxSize"]
    for job in jobs_of_master(case, jobs):
        read = sum({one["lfn"]: one["size"] for one in job}.values())
        if len(job) > 1 and read + (case["args"]["sizeIntercepts"] or 0) > limit:
            return False
    return True


def secondaries_follow_their_ratio(case: Case, jobs: Jobs, why: str) -> bool:
    for one in case["task"]["datasets"][1:]:
        pool = pool_of(one)
        for job in jobs:
            taken = next((files for key, files in job if key == one["id"]), [])
            if len(taken) != pool.files_wanted(len(job[0][1]), 0):
                return False
    return True


def short_ones_alone_are_left_out(case: Case, jobs: Jobs, why: str) -> bool:
    limit = case["args"]["nEventsPerJob"]
    return all(sum(one["end"] - one["start"] + 1 for one in job) >= limit for job in jobs_of_master(case, jobs))


def nothing_of_merging(case: Case, jobs: Jobs, why: str) -> bool:
    """`sizeGradientsPerInSize` and `no_split` are given for merge jobs, which `policy.merging` groups."""
    return bool(case["args"]["sizeGradientsPerInSize"] or case["args"]["no_split"])


#: sentence that decides -> the samples that differ by it, and what then holds of the jobs
DIFFERENCES: dict[str, tuple[tuple[int, ...], Callable[[Case, Jobs, str], bool]]] = {
    # the field ends such a job with nFilesPerJob or scratch space
    "groupBoundaryID 3: one boundary per job, no splitting": (
        (20, 44, 46, 47, 69, 73), boundaries_are_whole),
    # the field makes a smallest job that does not fit, and leaves the work directory out
    "a queue is skipped unless input + max(0.5 GB, output) + work directory are below maxwdir": (
        (7, 11, 12, 18, 27, 28, 29, 39, 43, 51, 57, 66, 86, 87, 88), scratch_space_is_kept),
    # the field makes jobs without them
    "ratio=N: N files of the secondary per master file": ((3, 4, 16, 17, 72), secondary_ran_out),
    # the field joins them wherever nothing else ends a job
    "range chunks may be merged across files only with tgtNumEventsPerJob": (
        (1, 8, 13, 40, 45, 54, 65, 82, 85), ranges_are_of_one_file),
    # the field counts events of ranges alone
    "number of events of a job: nEventsPerJob": ((12, 23, 71), events_are_counted),
    # the field forgets the input of a dynamic number of events
    "size of a job: input + expected output + work directory": ((6, 14, 60), input_is_counted),
    # the field gives the rest of a round to the last job in it, and all files where boundaries are kept
    "repeat: used cyclically; ratio=N: N files per master file": (
        (33, 49, 52, 89), secondaries_follow_their_ratio),
    # the field ends all splitting with the first
    "skipShortOutput: a job with too few events is left out": ((67,), short_ones_alone_are_left_out),
    "merge jobs are grouped by nFilesPerMergeJob, nEventsPerMergeJob, nGBPerMergeJob; onSiteMerging: all into one": (
        (9, 19, 35, 77), nothing_of_merging),
}  # fmt: skip
DIFFERING = {number for numbers, _ in DIFFERENCES.values() for number in numbers}


@pytest.mark.parametrize("number", sorted(set(range(len(CASES))) - DIFFERING))
def test_jobs_are_cut_as_the_field_cuts_them(number: int) -> None:
    assert cut(CASES[number]["in"])[0] == CASES[number]["out"]["subchunks"]


@pytest.mark.parametrize(
    ("sentence", "number"), [(sentence, one) for sentence, (numbers, _) in DIFFERENCES.items() for one in numbers]
)
def test_jobs_differ_from_the_fields_where_a_sentence_decides(sentence: str, number: int) -> None:
    case = CASES[number]["in"]
    jobs, why = cut(case)
    assert jobs != CASES[number]["out"]["subchunks"]
    assert DIFFERENCES[sentence][1](case, jobs, why)


@pytest.mark.parametrize("number", range(len(CASES)))
def test_each_file_of_a_sample_is_used_once_and_in_order(number: int) -> None:
    case = CASES[number]["in"]
    jobs, why = cut(case)
    used = [one for job in jobs for one in job[0][1]]
    in_boundaries = (case["args"]["useBoundary"] or {}).get("inSplit") == 2
    assert len(used) == len(set(used)) and (in_boundaries or used == sorted(used))
    ended = why or case["args"]["skip_short_output"] or len(jobs) == MOST_JOBS
    assert ended or len(used) == len(master_files(case))
