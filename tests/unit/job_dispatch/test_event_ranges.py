"""What reports do to ranges of events (JEDI: Transition of event status), and how reports are read."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.job_dispatch.api.range_reports import pairs_of, reports_of
from services.job_dispatch.api.requests import BadRequest
from services.job_dispatch.policy.event_ranges import BEFORE_DISPATCH, RangeId, RangeRow, judge_range
from shared.states import EVENT_RANGE
from shared.states.event_range import CODES, EventRangeStatus
from shared.states.graph import Owner

ID = RangeId(7, 1001, 52, 3, 10)


def row(status: EventRangeStatus, **more: Any) -> RangeRow:
    return RangeRow(1, status, **{"job_id": None if status == "ready" else 1001, "attempt_nr": 10, **more})


@pytest.mark.parametrize(
    ("reported", "status", "steps", "told"),
    [
        ("running", "sent", ("running",), True),
        ("finished", "sent", ("finished",), True),
        ("finished", "running", ("finished",), True),
        ("failed", "sent", ("failed",), True),
        ("failed", "running", ("failed",), True),
        # running -> failed -> fatal: a fatal error
        ("fatal", "sent", ("failed", "fatal"), True),
        ("fatal", "running", ("fatal",), True),
        # the same report twice, or after the job's end
        ("running", "running", (), True),
        ("finished", "finished", (), True),
        ("finished", "done", (), True),
        ("finished", "merged", (), True),
        ("failed", "failed", (), True),
        ("fatal", "fatal", (), True),
        # a late report of what was decided otherwise is skipped
        ("running", "finished", (), None),
        ("failed", "finished", (), None),
        ("finished", "failed", (), None),
        ("fatal", "failed", (), None),
        ("finished", "cancelled", (), None),
        ("finished", "discarded", (), None),
        ("finished", "corrupted", (), None),
        # given to nobody
        ("finished", "ready", (), False),
    ],
)
def test_what_a_report_does_to_a_range(
    reported: Any, status: EventRangeStatus, steps: tuple[str, ...], told: bool | None
) -> None:
    verdict = judge_range(reported, ID, row(status), None, 0)
    assert (verdict.steps, verdict.told) == (steps, told) and verdict.reason
    assert verdict.has_copy == (steps == ("failed",))


@pytest.mark.parametrize("version", [0, 1, BEFORE_DISPATCH])
@pytest.mark.parametrize(("is_input", "attempts"), [(True, 10), (False, 10), (True, 0)])
def test_only_fine_grained_processing_reports_what_was_not_given_out(
    version: int, is_input: bool, attempts: int
) -> None:
    verdict = judge_range("finished", ID, row("ready", is_input=is_input, attempt_nr=attempts), None, version)
    taken = version == BEFORE_DISPATCH and is_input and attempts > 0
    assert (verdict.told, verdict.steps) == (taken, ("sent", "finished") if taken else ())


def test_a_range_that_is_unknown_or_anothers_or_whose_job_is_gone_is_refused_with_the_reason() -> None:
    assert judge_range("finished", ID, None, None, 0).reason == "there is no range 7-1001-52-3-10"
    assert judge_range("finished", ID, row("sent", job_id=1002), None, 0).reason.endswith("belongs to job 1002")
    gone = judge_range("finished", ID, row("sent"), "job 1001 is not with a pilot", 0)
    assert (gone.told, gone.steps, gone.reason) == (False, (), "job 1001 is not with a pilot")


@given(
    st.sampled_from(["running", "finished", "failed", "fatal"]),
    st.sampled_from(sorted(CODES)),
    st.integers(0, 2),
    st.booleans(),
)
def test_every_step_is_an_arrow_of_the_graph_that_the_dispatcher_owns(
    reported: Any, status: Any, version: int, is_input: bool
) -> None:
    before = status
    for step in judge_range(reported, ID, row(status, is_input=is_input), None, version).steps:
        assert before in EVENT_RANGE.sources(step, Owner.JOB_DISPATCH)
        before = step


@given(st.tuples(*[st.integers(0, 2**31 - 1)] * 5))
def test_the_name_of_a_range_is_read_as_it_was_written(parts: tuple[int, int, int, int, int]) -> None:
    assert RangeId.of(str(RangeId(*parts))) == RangeId(*parts)


@pytest.mark.parametrize(
    "name", [None, 7, "", "1-2-3-4", "1-2-3-4-5-6", "1-2-3-4-x", "1--2-3-4", f"1-2-3-4-{2**40}", "9" * 500, "1-2-3-4-٣"]
)
def test_what_is_no_name_of_a_range_is_none(name: object) -> None:
    assert RangeId.of(name) is None


def test_a_group_says_in_which_zip_file_its_ranges_are() -> None:
    zip_file = {"numEvents": "2", "objstoreID": 117, "lfn": "EventService_1.zip", "fsize": 100, "pathConvention": 1000,
                "adler32": "0123abcd"}  # fmt: skip
    ranges = [{"eventRangeID": f"7-1001-52-{n}-10", "eventStatus": "finished"} for n in (1, 2)]
    found = reports_of(orjson.dumps([{"zipFile": zip_file, "eventRanges": ranges}]).decode())
    assert [(one.status, one.obj_store_id) for one in found] == [("finished", 117)] * 2
    (file,) = {one.file for one in found}
    assert file is not None and (file.kind, file.lfn, file.size_bytes) == ("zip", "EventService_1.zip", 100)
    assert (file.adler32, file.n_events, file.path_convention, file.job_id) == ("0123abcd", 2, 1000, 1001)


def test_ranges_of_an_optimisation_have_an_output_each() -> None:
    ranges = [
        {"eventRangeID": f"7-1001-52-{n}-10", "eventStatus": "finished", "pfn": f"/x/out{n}.json", "fsize": n}
        for n in (1, 2)
    ]
    found = reports_of([{"esOutput": {"numEvents": 2}, "eventRanges": ranges}])
    files = [one.file for one in found if one.file is not None]
    assert [(one.kind, one.lfn, one.size_bytes, one.n_events) for one in files] == [
        ("output", "out1.json", 1, 1), ("output", "out2.json", 2, 1),
    ]  # fmt: skip


def test_what_is_odd_in_one_range_costs_that_range_only() -> None:
    good = {"eventRangeID": str(ID), "eventStatus": "failed", "errorCode": "1305", "errorDiag": "d" * 900}
    odd = [7, None, {}, {"eventRangeID": "x", "eventStatus": "failed"}, {"eventRangeID": str(ID), "eventStatus": "?"}]
    found = reports_of([*odd, good])
    assert [one.range_id is not None and one.status is not None for one in found] == [False] * 5 + [True]
    assert (found[-1].error_code, len(found[-1].error_diag or "")) == (1305, 500)
    group = {"zipFile": {"lfn": "a.zip", "fsize": "n/a", "adler32": [], "numEvents": -1}, "eventRanges": [good]}
    file = reports_of([group])[0].file
    assert file is not None and (file.size_bytes, file.adler32, file.n_events) == (None, None, None)


@pytest.mark.parametrize("value", ["", "x", 7, None, "7", [{}] * 10_001])
def test_a_report_that_is_no_list_of_ranges_is_refused(value: object) -> None:
    with pytest.raises(BadRequest, match=r"event_ranges: value .* is not allowed"):
        reports_of(value)


@pytest.mark.parametrize(
    "value",
    [
        '[{"task_id": 7, "panda_id": 1001}, {"task_id": "7", "job_id": 1002}]',
        ["{'task_id': 7, 'panda_id': 1001}", "{'task_id': 7, 'job_id': 1002}"],
        [{"task_id": 7, "panda_id": 1001}, {"task_id": 7, "job_id": 1002}],
    ],
)
def test_pairs_of_task_and_job_are_read_as_clients_write_them(value: object) -> None:
    assert pairs_of(value) == [(7, 1001), (7, 1002)]


@pytest.mark.parametrize("value", ["", "[]", "x", "[1]", '[{"task_id": 7}]', "__import__('os')", '[{"task_id": -1}]'])
def test_pairs_that_are_none_are_refused(value: str) -> None:
    with pytest.raises(BadRequest, match="job_task_ids"):
        pairs_of(value)
