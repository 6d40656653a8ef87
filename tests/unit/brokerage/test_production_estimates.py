"""Production: what one job needs at a queue, to the number, and each kind of work that a bullet names, through the

whole decision.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from services.job_brokerage.policy.production import ProductionJobBrokerage
from shared.brokerage.filters.capability import cores_of_jobs, memory_at_most
from shared.brokerage.limits import JobLimits
from shared.brokerage.request import JobRequest, SmallestJob, smallest_job
from shared.model.link import Link
from shared.task.in_effect import rules_of
from shared.task.needs import WorkNeeds, needs_of_task
from tests.unit.brokerage.parts import LONG_AGO, NUCLEUS, Part, both, explanation, jobs, long_ago, world_of
from tests.unit.brokerage.test_production_bullets import request_of
from tests.unit.brokerage.worlds import NOW, a_queue, a_request, a_world

MB, GB = 1024**2, 1024**3


def found(check: str, request: JobRequest, **queue: Any) -> str | None:
    """The estimate with which a check left queue Q out."""
    why = explanation(ProductionJobBrokerage().decide(a_world([a_queue("Q", "SAT", **queue)]), request, 1))
    assert why is None or why.check == check
    return None if why is None else why.found


@pytest.mark.parametrize(
    ("unit", "cores", "expected_mb"), [("MBPerCore", 8, 15_300), ("MBPerCore", 1, 2700), ("MB", 8, 2700)]
)
def test_memory_is_base_ram_count_plus_ram_count_times_core_count_times_compensation(unit, cores, expected_mb) -> None:
    """(1000 + 2000 x cores) x 0.9; without x cores if the unit is MB."""
    row = {"core_count": cores, "base_ram_count": 1000, "ram_count": 2000, "ram_unit": unit, "cpu_time": 1}
    request, queue = a_request(needs=needs_of_task(row)), {"core_count": cores}
    estimate = f"memory of a job {expected_mb} MB"
    assert found("memory_too_large", request, **queue, max_rss_mb=expected_mb - 1) == estimate
    assert found("memory_too_small", request, **queue, min_rss_mb=expected_mb + 1, max_rss_mb=0) == estimate
    assert found("memory_too_large", request, **queue, min_rss_mb=expected_mb, max_rss_mb=expected_mb) is None


@pytest.mark.parametrize(("resource_type", "expected_mb"), [("SCORE", 1800), ("MCORE", 2700)])
def test_a_task_of_any_number_of_cores_has_the_smallest_slot_of_its_type_where_the_queue_leaves_the_number_to_it(
    resource_type: str, expected_mb: int
) -> None:
    """(1000 + 1000 x 1 or 2) x 0.9: coreCount 0, corecount -1; job generation makes the job for that slot."""
    row = {"core_count": 0, "base_ram_count": 1000, "ram_count": 1000, "ram_unit": "MBPerCore", "cpu_time": 1}
    request = a_request(needs=needs_of_task(row))
    world = a_world([a_queue("Q", capability="ucore", core_count=-1, max_rss_mb=64_000)])
    columns = world.columns
    place = columns.row_of_label[f"Q/{resource_type}"]
    slot = columns.queues[place].part_for(columns.known_types[resource_type], 0)
    assert slot is not None and cores_of_jobs(world, request)[place] == slot.core_count
    memory = memory_at_most.decide(world, request)
    assert memory is not None and memory.found[place] == expected_mb


@pytest.mark.parametrize(
    ("out_disk", "direct", "copies", "expected_mb"),
    [
        ((2048, "kBPerEvent"), False, False, 1000 + 2 * 400 + 50),  # outDiskCount x nEvents
        ((2048, "kBPerEvents"), True, False, 0 + 2 * 400 + 50),
        ((768, "kB"), False, False, 1000 + 750 + 50),  # outDiskCount x inputDiskCount
        ((768, "kB"), True, False, 0 + 750 + 50),
        ((768, "kB"), True, True, 1000 + 750 + 50),  # useLocalIO
        ((1, "kB"), False, False, 1000 + 512 + 50),  # 0.5 GB at least
        ((1, "kBPerEvent"), True, False, 0 + 512 + 50),
    ],
)
def test_disk_usage_is_input_plus_output_of_half_a_gb_at_least_plus_work_disk_count(
    out_disk, direct, copies, expected_mb
) -> None:
    """1000 MB of input with 400 events, 50 MB of work directory."""
    row = {
        "out_disk_count": out_disk[0], "out_disk_unit": out_disk[1], "work_disk_count": 50, "work_disk_unit": "MB",
        "ram_count": 1000, "cpu_time": 1,
    }  # fmt: skip
    job = SmallestJob(1, 400, 1000 * MB)
    request = a_request(needs=needs_of_task(row), job=job, copies_to_scratch=copies)
    queue = {"direct_access_lan": direct}
    assert found("scratch_disk", request, **queue, max_work_dir_mb=expected_mb) == f"disk of a job {expected_mb} MB"
    assert found("scratch_disk", request, **queue, max_work_dir_mb=expected_mb + 1) is None


def test_maxwdir_is_divided_by_the_core_count_of_the_queue() -> None:
    request = a_request(needs=replace(request_of(Part()).needs, work_dir_bytes=488 * MB))  # 1000 MB with the output
    for whole, chosen in ((8000, False), (8008, True)):
        world = a_world([a_queue("Q", capability="ucore", core_count=8, max_rss_mb=32_000, max_work_dir_mb=whole)])
        assert ("Q/SCORE" in ProductionJobBrokerage().decide(world, request, 1).chosen) is chosen


@pytest.mark.parametrize(("rules", "n_events"), [({"nEventsPerJob": 50}, 50), ({"nFilesPerJob": 2}, 200), ({}, 100)])
def test_n_events_is_the_smallest_number_of_events_in_a_job_for_disk_and_walltime(rules, n_events) -> None:
    """Ten files of 100 events; 36 s and 10 MB for each event."""
    needs = WorkNeeds(ram_mb=1000, cpu_time_hs06_s_per_event=324.0, output_bytes_per_event=10.0 * MB)
    request = a_request(needs=needs, job=smallest_job(rules_of(rules), n_files=10, n_events=1000, input_bytes=0))
    walltime_s, disk_mb = 36 * n_events + 600, max(512, 10 * n_events)
    assert found("walltime_too_long", request, max_time_s=walltime_s - 1) == f"walltime of a job {walltime_s} s"
    assert found("scratch_disk", request, max_work_dir_mb=disk_mb) == f"disk of a job {disk_mb} MB"


def test_walltime_is_cpu_time_times_n_events_over_c_times_p_times_efficiency_plus_base_time() -> None:
    """90 HS06 s x 8000 events / (8 cores x 12.5 HS06 x 0.8) + 300 s = 9300 s."""
    row = {
        "core_count": 8,
        "cpu_time": 90,
        "cpu_time_unit": "HS06sPerEvent",
        "cpu_efficiency": 80,
        "base_walltime": 300,
    }
    request = a_request(needs=needs_of_task(row), job=SmallestJob(1, 8000, 0))
    queue = {"core_count": 8, "core_power_hs06": 12.5}
    assert found("walltime_too_long", request, **queue, max_time_s=9299) == "walltime of a job 9300 s"
    assert found("walltime_too_short", request, **queue, min_time_s=9301) == "walltime of a job 9300 s"
    assert found("walltime_too_long", request, **queue, max_time_s=9300, min_time_s=9300) is None


def told(part: Part) -> str | None:
    why = explanation(ProductionJobBrokerage().decide(world_of(part), request_of(part), 1))
    return None if why is None else why.check


SHORT = Part(queue={"max_time_s": 86_399}, request={"nucleus": None})


@pytest.mark.parametrize(
    ("work", "check"),
    [
        (Part(request={"is_scout": True}), "walltime_of_a_day"),
        (Part(request={"is_merge": True}), "walltime_of_a_day"),
        (Part(needs={"cpu_time_hs06_s_per_event": None}), "walltime_of_a_day"),
        (Part(), None),
    ],
)
def test_scout_and_merge_jobs_and_those_of_undefined_walltime_skip_queues_below_24_hours(work, check) -> None:
    assert told(both(work, SHORT)) == check


@pytest.mark.parametrize(
    ("request_changes", "check"),
    [({"priority": 800}, "nucleus_only"), ({"is_scout": True}, "nucleus_only"), ({"priority": 799}, None),
     ({"is_pre_merged": True}, None)],
)  # fmt: skip
def test_priority_800_or_scout_jobs_skip_queues_that_are_not_of_the_nucleus(request_changes, check) -> None:
    assert told(Part(request=request_changes)) == check


@pytest.mark.parametrize(
    ("request_changes", "check"),
    [({"priority": 800}, "inactive"), ({"is_scout": True}, "inactive"), ({"is_merge": True}, "inactive"),
     ({"is_pre_merged": True}, "inactive"), ({"priority": 799}, None)],
)  # fmt: skip
@pytest.mark.parametrize("activated", [0, 1])
def test_priority_800_scout_merging_and_pre_merged_jobs_skip_inactive_queues(request_changes, check, activated) -> None:
    silent = Part(
        request={"nucleus": None},
        jobs=jobs(activated=activated),
        activity={"last_job_start_at": long_ago(2, 1), "known_since": LONG_AGO},
    )
    assert told(both(Part(request=request_changes), silent)) == (check if activated else None)


@pytest.mark.parametrize(
    ("request_changes", "check"),
    [({"processing_type": "urgent"}, "network_weight"), ({"priority": 1000}, "network_weight"),
     ({"priority": 999}, None), ({"processing_type": "simul"}, None)],
)  # fmt: skip
def test_urgent_work_and_priority_1000_need_the_network_weight(request_changes, check) -> None:
    """At the nucleus' own site the weight is 2.5, below a threshold of 1.7 x 2; elsewhere nothing urgent may run."""
    limits = JobLimits(network_weight_multiplier=2.0)
    world = a_world([a_queue("Q", NUCLEUS)], links=[Link("FAR", NUCLEUS, queued_at=NOW)])
    request = a_request(nucleus=NUCLEUS, limits=limits, **request_changes)
    why = explanation(ProductionJobBrokerage().decide(world, request, 1))
    assert (why.check if why else None) == check
    if why:
        assert (why.found, why.wanted) == ("network weight 2.5", "at least 3.4")


@pytest.mark.parametrize(
    ("limit", "running", "transferring", "check"),
    [(0, 1000, 2000, None), (0, 1000, 2001, "transferring"), (0, 1001, 2002, None), (0, 1001, 2003, "transferring"),
     (50, 25, 50, None), (50, 25, 51, "transferring"), (50, 26, 52, None), (3000, 0, 3000, None)],
)  # fmt: skip
def test_transferring_jobs_are_at_most_transferring_limit_or_2000_or_2_x_running(
    limit, running, transferring, check
) -> None:
    part = Part(queue={"transferring_limit": limit}, jobs=jobs(running=running, transferring=transferring))
    assert told(part) == check


@pytest.mark.parametrize(
    ("own_limit", "default", "check"),
    [(0, 300.0, "disk_io"), (0, 400.0, None), (300, 1e10, "disk_io"), (500, 1.0, None)],
)
def test_max_disk_io_default_counts_where_the_queue_has_no_max_disk_io(own_limit, default, check) -> None:
    part = Part(
        queue={"max_disk_io_kb_s": own_limit},
        needs={"disk_io_kb_s": 400.0},
        activity={"mean_disk_io_kb_s_per_core": 450.0},
        request={"limits": JobLimits(max_disk_io_kb_s=default)},
    )
    assert told(part) == check


def test_if_all_queues_are_skipped_the_task_is_pending_for_an_hour() -> None:
    part = Part(request={"priority": 800})
    decision = ProductionJobBrokerage().decide(world_of(part), request_of(part), 1)
    assert decision.outcome == "none" and decision.retry_at == NOW + timedelta(hours=1)
