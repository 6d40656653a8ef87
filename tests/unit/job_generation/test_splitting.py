"""One chunk cut into jobs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.job_generation.policy.values import QueueFacts, Task, Unit
from services.job_generation.splitting.limits import limits_at, ram_mb, refusal, totals_of
from services.job_generation.splitting.placement import Placement
from services.job_generation.splitting.placing import place
from services.job_generation.splitting.secondary import Pool
from shared.task.needs import WorkNeeds
from tests.unit.job_generation.made import GB, a_dataset, a_queue, a_task, some_units


def placed(
    task: Task, units: list[Unit], *queues: QueueFacts, pools: list[Pool] | None = None, **more: Any
) -> Placement:
    options: dict[str, Any] = {"scout": False, "max_jobs": 10_000, "seed": 1, **more}
    return place(task, units, pools or [], queues or (a_queue(),), **options)


def sizes(result: Placement) -> list[int]:
    return [len(one.job.master) for one in result.jobs]


def test_n_files_per_job_is_exact_but_for_the_last_job() -> None:
    assert sizes(placed(a_task({"nFilesPerJob": 3}), some_units(8))) == [3, 3, 2]


def test_n_events_per_job_ends_a_job_before_it_has_too_many() -> None:
    assert sizes(placed(a_task({"nEventsPerJob": 250}), some_units(5))) == [2, 2, 1]


def test_n_events_per_job_that_holds_whole_files_counts_files() -> None:
    task = a_task({"nEventsPerJob": 300, "nEventsPerInputFile": 100})
    assert sizes(placed(task, some_units(7, n_events=None))) == [3, 3, 1]


def test_a_file_with_more_events_than_a_job_may_have_is_one_job() -> None:
    assert sizes(placed(a_task({"nEventsPerJob": 50}), some_units(2))) == [1, 1]


def test_n_gb_per_job_counts_input_output_and_work_directory() -> None:
    task = a_task({"nGBPerJob": 10}, needs=WorkNeeds(work_dir_bytes=GB, output_bytes_per_event=GB / 100))
    # 3 GB of input and 1 GB of output for each file; 10 GB + 1500 MB reserve besides the work directory
    assert sizes(placed(task, some_units(5, size_bytes=3 * GB))) == [2, 2, 1]


def test_without_rules_a_job_takes_at_most_two_hundred_files() -> None:
    assert sizes(placed(a_task({}), some_units(450))) == [200, 200, 50]


def test_without_rules_and_a_stated_work_directory_a_job_takes_at_most_twenty_gb() -> None:
    assert sizes(placed(a_task({}), some_units(5, size_bytes=9 * GB))) == [2, 2, 1]


def test_the_queues_work_directory_bounds_a_job() -> None:
    queue = a_queue(max_work_dir_mb=10 * 1024)
    assert sizes(placed(a_task({}), some_units(4, size_bytes=4 * GB), queue)) == [2, 2]


def test_input_read_directly_takes_no_room_in_the_work_directory() -> None:
    queue = a_queue(max_work_dir_mb=10 * 1024, reads_directly=True)
    assert sizes(placed(a_task({}), some_units(4, size_bytes=4 * GB), queue)) == [4]


def test_the_queues_time_limit_bounds_a_job() -> None:
    needs = WorkNeeds(cpu_time_hs06_s_per_event=90, cpu_efficiency=0.9, base_walltime_s=600)
    queue = a_queue(max_time_s=4000, core_power_hs06=10)  # 1000 s for each file on top of 600 s
    assert sizes(placed(a_task({}, needs=needs), some_units(7), queue)) == [3, 3, 1]


def test_max_walltime_of_the_task_bounds_a_job_where_the_queue_allows_more() -> None:
    needs = WorkNeeds(cpu_time_hs06_s_per_event=90, cpu_efficiency=0.9, base_walltime_s=600)
    queue = a_queue(max_time_s=400_000, core_power_hs06=10)
    assert sizes(placed(a_task({"maxWalltime": 1}, needs=needs), some_units(4), queue)) == [3, 1]


def test_max_walltime_does_not_refuse_the_smallest_job_but_the_queues_time_limit_does() -> None:
    needs = WorkNeeds(cpu_time_hs06_s_per_event=900, cpu_efficiency=0.9, base_walltime_s=600)  # 10 600 s for each file
    task = a_task({"maxWalltime": 1}, needs=needs)
    assert sizes(placed(task, some_units(3), a_queue(max_time_s=400_000, core_power_hs06=10))) == [1, 1, 1]
    assert sizes(placed(task, some_units(3), a_queue(core_power_hs06=10))) == [1, 1, 1]
    refused = placed(task, some_units(3), a_queue(max_time_s=10_599, core_power_hs06=10))
    assert sizes(refused) == [] and "at most 10599 s are allowed at Q" in refused.reasons[0]


def test_a_gap_between_events_ends_a_job() -> None:
    units = [Unit(n, "f", 1000, 10, start, start + 9) for n, start in enumerate((0, 10, 30, 40))]
    assert sizes(placed(a_task({"nEventsPerJob": 100}), units)) == [2, 2]


def test_a_target_number_of_events_may_cross_the_border_of_a_file() -> None:
    units = [Unit(n, f"f{n // 2}", 1000, 10, n % 2 * 10, n % 2 * 10 + 9) for n in range(4)]
    assert sizes(placed(a_task({"tgtNumEventsPerJob": 100}), units)) == [4]
    assert sizes(placed(a_task({"nEventsPerJob": 100}), units)) == [2, 2]


def test_two_ranges_of_a_file_are_read_once() -> None:
    units = [Unit(n, "f", 1000, 10, n * 10, n * 10 + 9) for n in range(2)]
    [one] = placed(a_task({"nEventsPerJob": 100}), units).jobs
    assert one.job.input_bytes == 1000 and one.job.n_events == 20


@pytest.mark.parametrize(
    ("rule", "field"), [({"respectLB": True}, "lumi_block"), ({"groupBoundaryID": 1}, "boundary_id")]
)
def test_a_boundary_is_not_crossed(rule: dict[str, Any], field: str) -> None:
    units = [Unit(n, f"f{n}", 1000, 10, **{field: n // 3}) for n in range(5)]
    assert sizes(placed(a_task(rule), units)) == [3, 2]


def test_scouts_take_one_file_each_unless_the_task_says_how_many() -> None:
    assert sizes(placed(a_task({"nGBPerJob": 10}), some_units(3), scout=True)) == [1, 1, 1]
    assert sizes(placed(a_task({"nFilesPerJob": 2}), some_units(3), scout=True)) == [2, 1]


def test_what_does_not_fit_one_queue_goes_to_the_next() -> None:
    small, large = a_queue("SMALL", max_work_dir_mb=1024, weight=1000.0), a_queue("LARGE", max_work_dir_mb=50 * 1024)
    units = [Unit(n, f"f{n}", size, 10) for n, size in enumerate((1000, 4 * GB, 1000))]
    result = placed(a_task({"nFilesPerJob": 1}), units, small, large)
    assert [(one.queue.queue, one.job.master[0].file_id) for one in result.jobs][1] == ("LARGE", 1)
    assert result.leftover == []


def test_what_fits_no_queue_is_left_over_with_the_reason_and_the_rest_goes_on() -> None:
    units = [Unit(n, f"f{n}", size, 10) for n, size in enumerate((1000, 40 * GB, 1000))]
    result = placed(a_task({"nFilesPerJob": 1}), units, a_queue(max_work_dir_mb=2048))
    assert [unit.file_id for unit in result.leftover] == [1]
    assert len(result.jobs) == 2
    assert "f1 fits no queue" in result.reasons[0] and "scratch space" in result.reasons[0]


def test_a_queue_takes_no_more_jobs_than_its_cap() -> None:
    result = placed(a_task({"nFilesPerJob": 1}), some_units(50), a_queue("A", max_jobs=7), a_queue("B", max_jobs=9))
    counts = {name: sum(one.queue.queue == name for one in result.jobs) for name in "AB"}
    assert counts == {"A": 7, "B": 9}
    assert len(result.leftover) == 34


def test_jobs_spread_over_queues_by_weight_and_each_draw_lowers_the_weight() -> None:
    queues = [a_queue("A", weight=1.0), a_queue("B", weight=1.0), a_queue("C", weight=1e-9)]
    result = placed(a_task({"nFilesPerJob": 1}), some_units(1000), *queues)
    counts = {name: sum(one.queue.queue == name for one in result.jobs) for name in "ABC"}
    assert counts["C"] == 0 and min(counts["A"], counts["B"]) > 300


def test_secondary_files_follow_in_order_by_ratio() -> None:
    pool = Pool(a_dataset(2, master_id=1, attributes={"ratio": 0.5}), tuple(some_units(4, dataset_id=2)))
    result = placed(a_task({"nFilesPerJob": 2}), some_units(6), pools=[pool])
    assert [[unit.file_id for unit in one.job.secondary[2]] for one in result.jobs] == [[0], [1], [2]]


def test_a_repeated_secondary_starts_again_and_an_unsplit_one_goes_to_every_job() -> None:
    repeated = Pool(
        a_dataset(2, master_id=1, attributes={"repeat": True, "ratio": 2}), tuple(some_units(3, dataset_id=2))
    )
    whole = Pool(a_dataset(3, master_id=1, attributes={"nosplit": True}), tuple(some_units(2, dataset_id=3)))
    result = placed(a_task({"nFilesPerJob": 1}), some_units(3), pools=[repeated, whole])
    assert [[unit.file_id for unit in one.job.secondary[2]] for one in result.jobs] == [[0, 1], [2, 0], [1, 2]]
    assert all(len(one.job.secondary[3]) == 2 for one in result.jobs)


@pytest.mark.parametrize("attribute", ["repeat", "reusable", "nosplit"])
def test_a_repeated_file_is_in_a_job_once_and_its_bytes_count_once(attribute: str) -> None:
    pool = Pool(
        a_dataset(2, master_id=1, attributes={attribute: True}), tuple(some_units(2, dataset_id=2, size_bytes=10 * GB))
    )
    queue = a_queue(max_work_dir_mb=70 * 1024 + 513)
    [one] = placed(a_task({"nFilesPerJob": 50}), some_units(50, size_bytes=GB), queue, pools=[pool]).jobs
    assert [unit.file_id for unit in one.job.secondary[2]] == [0, 1]
    assert one.job.input_bytes == 70 * GB and totals_of(one.job).n_secondary == 2


def test_without_secondary_files_left_the_rest_is_left_over() -> None:
    pool = Pool(a_dataset(2, master_id=1), tuple(some_units(2, dataset_id=2)))
    result = placed(a_task({"nFilesPerJob": 1}), some_units(5), pools=[pool])
    assert len(result.jobs) == 2 and len(result.leftover) == 3
    assert "not enough unused files" in result.reasons[0]


RULES = st.fixed_dictionaries(
    {},
    optional={
        "nFilesPerJob": st.integers(1, 7), "nEventsPerJob": st.integers(1, 500), "nGBPerJob": st.integers(1, 20),
        "nMaxFilesPerJob": st.integers(1, 30), "maxWalltime": st.integers(1, 24), "respectLB": st.booleans(),
        "tgtNumEventsPerJob": st.integers(1, 500), "useLocalIO": st.booleans(), "skipShortOutput": st.booleans(),
        "dynamicNumEvents": st.integers(1, 100), "groupBoundaryID": st.integers(1, 4),
    },
)  # fmt: skip
UNITS = st.lists(
    st.tuples(
        st.integers(0, 6 * GB), st.one_of(st.none(), st.integers(1, 300)), st.integers(0, 2),
        st.sampled_from([None, None, 3000]),
    ),
    max_size=40,
)  # fmt: skip
QUEUES = st.lists(
    st.tuples(
        st.sampled_from([0, 2048, 20_000]),
        st.sampled_from([0, 3600, 86_400]),
        st.booleans(),
        st.one_of(st.none(), st.integers(0, 20)),
        st.floats(0, 100),
        st.one_of(st.none(), st.integers(1, 9)),
        st.sampled_from([0, 2000]),
        st.sampled_from([0, 1500, 2000, 4000]),
    ),
    max_size=4,
)


@settings(max_examples=150, deadline=None)
@given(RULES, UNITS, QUEUES, st.booleans(), st.integers(0, 2**62), st.booleans())
def test_every_unit_is_in_one_job_or_left_over_in_order_and_within_the_limits(
    rule: dict[str, Any], files: list[Any], places: list[Any], scout: bool, seed: int, more: bool
) -> None:
    units = [
        Unit(n, f"f{n}", size, events, lumi_block=block, boundary_id=block, ram_mb=raised)
        for n, (size, events, block, raised) in enumerate(files)
    ]
    queues = [
        a_queue(
            f"Q{n}",
            max_work_dir_mb=disk,
            max_time_s=time,
            reads_directly=direct,
            max_jobs=cap,
            weight=weight,
            core_power_hs06=10.0,
            job_chunk_size=group,
            min_time_s=least,
            max_rss_mb=memory,
        )
        for n, (disk, time, direct, cap, weight, group, least, memory) in enumerate(places)
    ]
    task = a_task(rule, needs=WorkNeeds(cpu_time_hs06_s_per_event=10, output_bytes_per_event=1e6, ram_mb=2000))
    result = place(task, units, [], queues, scout=scout, max_jobs=25, seed=seed, more_follows=more)
    used = [unit.file_id for one in result.jobs for unit in one.job.master]
    left = [unit.file_id for unit in result.leftover]
    left_out = [unit.file_id for unit in result.left_out]
    assert sorted(used + left + left_out) == list(range(len(units)))
    in_order = not task.rules.keeps_boundaries_whole
    assert not in_order or (used == sorted(used) and left == sorted(left))
    assert not left_out or (task.rules.skips_short_output and result.reasons)
    assert len(result.jobs) <= 25
    for one in result.jobs:
        limits = limits_at(task.needs, task.rules, one.queue, scout=scout)
        asking = one.job.master if task.rules.keeps_boundaries_whole else one.job.master[:1]  # a pick asks for the same
        raised = max(unit.ram_mb or 0 for unit in asking)
        assert not one.queue.max_rss_mb or ram_mb(task.needs, 1, raised_mb=raised) <= one.queue.max_rss_mb
        least = len(one.job.master) if task.rules.keeps_boundaries_whole else task.rules.files_per_step
        assert 1 <= len(one.job.master) <= max(limits.max_files, least)
        events = sum(unit.events or 1 for unit in one.job.master)
        assert len(one.job.master) == 1 or least > 1 or events <= (limits.max_events or events)
        first = len(one.job.master) <= least
        assert refusal(totals_of(one.job), limits, task.needs, one.queue, first=first) is None
        if task.rules.respects_lumi_block:
            assert len({unit.lumi_block for unit in one.job.master}) == 1 or task.rules.keeps_boundaries_whole
    for queue in queues:
        made = sum(one.queue.queue == queue.queue for one in result.jobs)
        assert queue.max_jobs is None or made <= queue.max_jobs
    assert place(task, units, [], queues, scout=scout, max_jobs=25, seed=seed, more_follows=more) == result
