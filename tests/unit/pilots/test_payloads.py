"""What simulated payloads need, and how many ranges of events their jobs process."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from services.cli.simulated_pilots.payload import draw
from services.cli.simulated_pilots.profile import Fault, Profile
from services.cli.simulated_pilots.ranges import POINTS_OF_JOB, RANGES_OF_FILE, RangeWork

SPEC: dict[str, Any] = {"PandaID": 11, "taskID": 5, "attemptNr": 1, "coreCount": 1, "inFiles": "a.root"}
QUIET = Profile(seed=3, rates={})


@pytest.mark.parametrize(
    ("given_mb", "fault"), [(1000, Fault.MEMORY), (1699, Fault.MEMORY), (1700, None), (2000, None), (None, None)]
)
def test_a_payload_fails_for_memory_below_what_it_says_it_needs(given_mb: int | None, fault: Fault | None) -> None:
    payload = draw({**SPEC, "minRamCount": given_mb, "jobPars": "--simulatedMemoryMB=1700"}, QUIET)
    assert (payload.fault, payload.max_pss_kb) == (fault, 1700 * 1024)


@pytest.mark.parametrize(
    ("told", "names"),
    [
        (r"regex|a.*\.root", ["a111.root", "a112.root", "a113.root"]),
        (r"regex|^a_[0-9]+\.(root|txt)$", []),  # groups are more than it understands
        (r"regex|^a_\d+\.root$", ["a_111.root", "a_112.root", "a_113.root"]),
        ("regex|out", ["out"]),
    ],
)
def test_a_payload_writes_files_that_match_the_expression_of_an_output(told: str, names: list[str]) -> None:
    spec = {**SPEC, "outFiles": f"{told},log.tgz", "logFile": "log.tgz", "ddmEndPointOut": "X,L"}
    written = draw(spec, QUIET).outputs
    assert [(one.lfn, one.endpoint) for one in written] == [*((name, "X") for name in names), ("log.tgz", "L")]


def given(work: RangeWork) -> int:
    """How many ranges a job gets where there is no end of them."""
    n_given = 0
    while (call := work.call()) is not None:
        method, fields = call
        if method == "acquire_event_ranges":
            n_given += fields["n_ranges"]
            work.answered([{"eventRangeID": f"5-11-7-{number}-10"} for number in range(fields["n_ranges"])])
        else:
            work.answered({"Returns": []})
    return n_given


@pytest.mark.parametrize("n_files", [1, 4])
def test_a_job_processes_so_many_ranges_for_each_of_its_files_and_leaves_the_rest(n_files: int) -> None:
    names = ",".join(f"{number}.root" for number in range(n_files))
    work = RangeWork.of({**SPEC, "eventService": "True", "inFiles": names})
    assert work is not None and given(work) == RANGES_OF_FILE * n_files


def test_a_job_of_a_search_evaluates_points_one_by_one_with_an_output_of_each() -> None:
    work = RangeWork.of({**SPEC, "isHPO": "True"})
    assert work is not None
    call = work.call()
    assert call is not None and call[1]["n_ranges"] == 1
    work.answered([{"eventRangeID": "5-11-7-3-10"}])
    reported = work.call()
    assert reported is not None and reported[1]["event_ranges"] == [
        {"esOutput": {"numEvents": 1, "objstoreID": 1},
         "eventRanges": [{"eventRangeID": "5-11-7-3-10", "eventStatus": "finished", "pfn": "5-11-7-3-10.json"}]}
    ]  # fmt: skip
    work.answered({"Returns": [True]})
    assert given(work) == POINTS_OF_JOB - 1 and RangeWork.of(SPEC) is None


@pytest.mark.parametrize(
    ("more", "written"),
    [
        ({"jobPars": "-j '' -o \"{'out.root': 'u.1._000001.out.root'}\" -p run.sh"}, ["u.1._000001.out.root"]),
        ({"jobPars": "--inputFile=a.root --outputHITSFile=HITS.1.root,u.1._000001.out.root"}, ["u.1._000001.out.root"]),
        ({"jobPars": b64encode(b"-o u.1._000001.out.root").decode()}, ["u.1._000001.out.root"]),
        ({"jobPars": "", "postprocess": {"args": "-o u.1._000001.out.root"}}, ["u.1._000001.out.root"]),
        ({"jobPars": "-o \"{'out.root': 'u.1._000001.out.root.unmerged'}\""}, []),
        ({"jobPars": "-o other.root"}, []),
    ],
)
def test_a_payload_writes_what_its_command_line_names_and_not_what_is_expected(
    more: dict[str, str], written: list[str]
) -> None:
    spec = {**SPEC, "outFiles": "u.1._000001.out.root,u.1.log.tgz", "logFile": "u.1.log.tgz", **more}
    assert [one.lfn for one in draw(spec, QUIET).outputs] == [*written, "u.1.log.tgz"]
