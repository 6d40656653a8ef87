"""Analysis: what one job needs at a queue, to the number, and the second pass, through the whole decision."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from services.job_brokerage.policy.production import ProductionJobBrokerage
from shared.brokerage.request import InputDataset, InputReplica, SmallestJob
from shared.task.needs import needs_of_task
from tests.unit.brokerage.analysis_worlds import an_analysis, decided, left_out
from tests.unit.brokerage.parts import COMMON, QUEUE, Case, Part, both, explanation, named
from tests.unit.brokerage.test_analysis_bullets import CASES, HOME, analysis_world, request_of
from tests.unit.brokerage.worlds import NOW, a_queue, a_request, a_world

MB = 1024**2


def found(check: str, request: Any, **queue: Any) -> str | None:
    """The estimate with which a check left queue Q out."""
    why = explanation(decided(a_world([a_queue("Q", "SAT", **queue)]), request))
    assert why is None or why.check == check
    return None if why is None else why.found


@pytest.mark.parametrize(
    ("unit", "cores", "expected_mb"),
    [
        ("MBPerCore", 8, 15_300),  # (1000 + 2000 x 8) x 0.9
        ("MBPerCore", 1, 2700),
        ("MB", 8, 2700),  # (1000 + 2000) x 0.9
    ],
)
def test_memory_is_base_ram_count_plus_ram_count_by_its_unit_times_compensation(unit, cores, expected_mb) -> None:
    row = {"core_count": cores, "base_ram_count": 1000, "ram_count": 2000, "ram_unit": unit, "cpu_time": 1}
    request = an_analysis(needs=needs_of_task(row))
    queue = {"core_count": cores, "max_work_dir_mb": 0}
    assert (
        found("memory_too_large", request, **queue, max_rss_mb=expected_mb - 1) == f"memory of a job {expected_mb} MB"
    )
    assert found("memory_too_large", request, **queue, max_rss_mb=expected_mb) is None
    assert found("memory_too_small", request, **queue, min_rss_mb=expected_mb + 1, max_rss_mb=0)
    assert found("memory_too_small", request, **queue, min_rss_mb=expected_mb, max_rss_mb=0) is None


@pytest.mark.parametrize(
    ("direct", "copies", "expected_mb"),
    [
        (False, False, 1000 + 500 + 50),
        (True, False, 0 + 500 + 50),  # only the first term is zero
        (True, True, 1000 + 500 + 50),  # useLocalIO
    ],
)
def test_disk_usage_is_zero_or_input_plus_output_by_input_plus_work_disk_count(direct, copies, expected_mb) -> None:
    """1000 MB of input, half a MB of output for each of them, 50 MB of work directory."""
    row = {
        "out_disk_count": 512,
        "out_disk_unit": "kB",
        "work_disk_count": 50,
        "work_disk_unit": "MB",
        "ram_count": 1000,
    }
    request = an_analysis(needs=needs_of_task(row), job=SmallestJob(1, 0, 1000 * MB), copies_to_scratch=copies)
    queue = {"direct_access_lan": direct}
    assert found("scratch_disk", request, **queue, max_work_dir_mb=expected_mb) == f"disk of a job {expected_mb} MB"
    assert found("scratch_disk", request, **queue, max_work_dir_mb=expected_mb + 1) is None


def test_only_production_expects_half_a_gb_of_output_at_least() -> None:
    world = a_world([a_queue("Q", max_work_dir_mb=512)])
    assert decided(world, an_analysis()).chosen == ("Q",)
    assert ProductionJobBrokerage().decide(world, a_request(), 1).chosen == ()


def test_maxwdir_is_divided_by_the_core_count_of_the_queue() -> None:
    """Eight slots of one core share 9200 MB: 1150 MB each are not larger than 1150 MB, 1151 MB are."""
    request = an_analysis(needs=replace(an_analysis().needs, work_dir_bytes=1150 * MB))
    for whole, check in ((9200, "scratch_disk"), (9208, None)):
        world = a_world([a_queue("Q", capability="ucore", core_count=8, max_rss_mb=32_000, max_work_dir_mb=whole)])
        assert left_out(decided(world, request), "Q") == check


def test_the_walltime_of_analysis_is_that_of_production() -> None:
    """90 HS06 s x 8000 events / (8 cores x 12.5 HS06 x 0.8) + 300 s = 9300 s."""
    row = {
        "core_count": 8,
        "cpu_time": 90,
        "cpu_time_unit": "HS06sPerEvent",
        "cpu_efficiency": 80,
        "base_walltime": 300,
    }
    request = an_analysis(needs=needs_of_task(row), job=SmallestJob(1, 8000, 0))
    queue = {"core_count": 8, "core_power_hs06": 12.5}
    assert found("walltime_too_long", request, **queue, max_time_s=9299) == "walltime of a job 9300 s"
    assert found("walltime_too_short", request, **queue, min_time_s=9301) == "walltime of a job 9300 s"
    assert found("walltime_too_long", request, **queue, max_time_s=9300, min_time_s=9300) is None


PERSISTENT = CASES[[one.check for one in CASES].index("status") : [one.check for one in CASES].index("pilots") + 1]
TEMPORARY = CASES[[one.check for one in CASES].index("bad_jobs") :]
# About the data itself: it is what the second pass is about, or the input is elsewhere in these cases.
ABOUT_INPUT = ("input_locality", "read_storage")


def data_only_at_q(case: Case) -> tuple[Any, Any]:
    size = 100
    part = both(case.broken, Part(inputs=(InputDataset("d", 1, size, (InputReplica("SAT_DATADISK", 1, size),)),)))
    return analysis_world(part), request_of(part)


@pytest.mark.parametrize("case", named(tuple(one for one in PERSISTENT if one.check not in ABOUT_INPUT)))
def test_if_all_are_skipped_due_to_persistent_issues_queues_without_the_input_are_tried(case: Case) -> None:
    decision = decided(*data_only_at_q(case))
    why = explanation(decision, HOME)
    assert why is None or why.check == case.check
    assert explanation(decision) == case.explanation


@pytest.mark.parametrize("case", named(TEMPORARY))
def test_if_only_temporary_issues_keep_the_task_from_its_data_it_waits_for_20_minutes(case: Case) -> None:
    decision = decided(*data_only_at_q(case))
    why = explanation(decision, HOME)
    assert why is not None and why.check == "input_locality"
    assert decision.chosen == () and decision.retry_at == NOW + timedelta(minutes=20)


def test_if_all_queues_are_still_skipped_the_task_is_pending_for_20_minutes() -> None:
    part = both(COMMON["status"].broken, COMMON["walltime_too_long"].broken)
    decision = decided(analysis_world(part), request_of(part))
    assert decision.outcome == "none" and decision.retry_at == NOW + timedelta(minutes=20)
    assert QUEUE in decision.names
