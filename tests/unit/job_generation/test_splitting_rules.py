"""Rules of splitting, each by its name, within one chunk."""

from __future__ import annotations

from typing import Any

import pytest

from services.job_generation.policy.values import Unit
from services.job_generation.splitting.secondary import Pool
from shared.task.needs import WorkNeeds
from tests.unit.job_generation.made import GB, a_dataset, a_queue, a_task, some_units
from tests.unit.job_generation.test_splitting import placed, sizes

#: 10 s for each event of one core of 10 HS06
SLOW = WorkNeeds(cpu_time_hs06_s_per_event=90, cpu_efficiency=0.9, base_walltime_s=0)


def ranges(count: int, n_events: int = 10) -> list[Unit]:
    return [Unit(n, "f", 1000, n_events, n * n_events, (n + 1) * n_events - 1) for n in range(count)]


@pytest.mark.parametrize("group", [1, 2])
def test_group_boundary_id_1_and_2_part_a_boundary_but_join_none(group: int) -> None:
    units = [Unit(n, f"f{n}", 1000, 10, boundary_id=n // 5) for n in range(10)]
    assert sizes(placed(a_task({"groupBoundaryID": group, "nMaxFilesPerJob": 3}), units)) == [3, 2, 3, 2]


@pytest.mark.parametrize("group", [3, 4])
def test_group_boundary_id_3_and_4_make_one_job_of_each_boundary(group: int) -> None:
    units = [Unit(n, f"f{n}", 1000, 10, boundary_id=n % 2) for n in range(10)]
    assert sizes(placed(a_task({"groupBoundaryID": group, "nMaxFilesPerJob": 3}), units)) == [5, 5]


def test_a_boundary_larger_than_any_job_is_left_over_with_the_reason() -> None:
    units = [Unit(n, f"f{n}", 3 * GB, 10, boundary_id=n // 4) for n in range(5)]
    result = placed(a_task({"groupBoundaryID": 3}), units, a_queue(max_work_dir_mb=10 * 1024))
    assert sizes(result) == [1] and len(result.leftover) == 4
    assert result.reasons[0].startswith("boundary 0 (4 units from f0 on) fits no queue")


def test_input_larger_than_any_disk_is_left_over_with_the_reason() -> None:
    result = placed(a_task({"nFilesPerJob": 2}), some_units(2, size_bytes=19 * GB), a_queue(max_work_dir_mb=10 * 1024))
    assert result.jobs == [] and "bytes of scratch space" in result.reasons[0]


def test_memory_above_every_queue_is_left_over_with_the_reason() -> None:
    result = placed(a_task({"nFilesPerJob": 1}), some_units(1, ram_mb=9000), a_queue(max_rss_mb=4000))
    assert result.jobs == [] and "MB of memory, Q has 4000" in result.reasons[0]


def test_memory_of_the_task_that_was_raised_after_queues_were_ranked_is_compared_again() -> None:
    small, large = a_queue("SMALL", max_rss_mb=1000, weight=1e6), a_queue("LARGE", max_rss_mb=2000)
    result = placed(a_task({"nFilesPerJob": 1}, needs=WorkNeeds(ram_mb=2000)), some_units(3), small, large)
    assert [one.queue.queue for one in result.jobs] == ["LARGE"] * 3


def test_a_boundary_needs_the_most_memory_that_one_of_its_units_asks_for() -> None:
    units = [Unit(n, f"f{n}", 1000, boundary_id=n // 2, ram_mb=9000 if n == 3 else None) for n in range(4)]
    result = placed(a_task({"groupBoundaryID": 3}), units, a_queue(max_rss_mb=4000))
    assert sizes(result) == [2] and [unit.file_id for unit in result.leftover] == [2, 3]


@pytest.mark.parametrize("rule", [{"nFilesPerJob": 2}, {"nGBPerJob": 1}, {"nEventsPerJob": 10}, {}])
@pytest.mark.parametrize(
    "values", [{"size_bytes": 0}, {"n_events": 0}, {"n_events": None}, {"size_bytes": 0, "n_events": 0}]
)
def test_files_of_size_0_or_without_events_are_each_in_one_job(rule: dict[str, Any], values: dict[str, Any]) -> None:
    result = placed(a_task(rule), some_units(401, **values))
    assert [unit.file_id for one in result.jobs for unit in one.job.master] == list(range(401))
    assert max(sizes(result)) <= 200


def test_more_input_that_follows_makes_the_last_job_longer() -> None:
    assert sizes(placed(a_task({"nFilesPerJob": 3}), some_units(8), more_follows=True)) == [3, 3]
    assert sizes(placed(a_task({"nFilesPerJob": 3}), some_units(9), more_follows=True)) == [3, 3, 3]


def test_the_first_job_of_a_chunk_is_made_whatever_follows() -> None:
    assert sizes(placed(a_task({"nFilesPerJob": 3}), some_units(2), more_follows=True)) == [2]


def test_job_chunk_size_gives_a_queue_whole_groups_and_other_queues_the_rest() -> None:
    grouped, other = a_queue("A", job_chunk_size=5, weight=1e9), a_queue("B", weight=1e-9)
    result = placed(a_task({"nFilesPerJob": 1}), some_units(12), grouped, other)
    assert [sum(one.queue.queue == name for one in result.jobs) for name in "AB"] == [10, 2]


def test_job_chunk_size_with_no_other_queue_gives_it_the_rest_unless_more_follows() -> None:
    grouped = a_queue("A", job_chunk_size=5)
    assert len(placed(a_task({"nFilesPerJob": 1}), some_units(12), grouped).jobs) == 12
    result = placed(a_task({"nFilesPerJob": 1}), some_units(12), grouped, more_follows=True)
    assert len(result.jobs) == 10 and "jobChunkSize asks for 5 jobs together" in result.reasons[0]


def test_job_chunk_size_above_what_a_chunk_may_make_is_all_of_it() -> None:
    result = placed(a_task({"nFilesPerJob": 1}), some_units(12), a_queue(job_chunk_size=100), max_jobs=7)
    assert len(result.jobs) == 7


def test_mintime_of_a_queue_sends_jobs_of_a_dynamic_number_of_events_elsewhere() -> None:
    long, short = a_queue("LONG", min_time_s=5000, weight=1e9), a_queue("SHORT", min_time_s=1000, weight=1e-9)
    task = a_task({"dynamicNumEvents": 10, "maxEventsPerJob": 200}, needs=SLOW)
    result = placed(task, ranges(40), long, short)
    assert {one.queue.queue for one in result.jobs} == {"SHORT"} and sizes(result) == [20, 20]


def test_mintime_asks_nothing_of_jobs_whose_number_of_events_is_fixed() -> None:
    result = placed(a_task({"nFilesPerJob": 1}, needs=SLOW), some_units(2, n_events=1), a_queue(min_time_s=5000))
    assert sizes(result) == [1, 1]


def test_an_end_of_input_that_is_shorter_than_mintime_everywhere_is_a_job_unless_more_follows() -> None:
    task, queue = a_task({"dynamicNumEvents": 10, "maxEventsPerJob": 200}, needs=SLOW), a_queue(min_time_s=1500)
    assert sizes(placed(task, ranges(24), queue)) == [20, 4]
    result = placed(task, ranges(24), queue, more_follows=True)
    assert sizes(result) == [20] and "more input follows" in result.reasons[-1]


@pytest.mark.parametrize(
    ("rule", "units", "expected", "n_left_out"),
    [
        ({"nFilesPerJob": 3}, some_units(7), [3, 3], 1),
        ({"nEventsPerJob": 300}, some_units(7), [3, 3], 1),
        ({"nEventsPerJob": 50}, some_units(2), [1, 1], 0),
        ({"nFilesPerJob": 3, "respectLB": True}, [Unit(n, f"f{n}", lumi_block=n // 4) for n in range(7)], [3, 3], 1),
        ({"nEventsPerJob": 300}, some_units(4, n_events=None), [4], 0),
    ],
)
def test_skip_short_output_leaves_out_jobs_with_fewer_events_or_files(
    rule: dict[str, Any], units: list[Unit], expected: list[int], n_left_out: int
) -> None:
    result = placed(a_task({**rule, "skipShortOutput": True}), units)
    assert sizes(result) == expected and len(result.left_out) == n_left_out
    assert all("skipShortOutput" in one for one in result.reasons) and bool(result.reasons) == bool(n_left_out)


def test_what_lacks_only_what_follows_is_not_left_out() -> None:
    task = a_task({"nFilesPerJob": 3, "skipShortOutput": True})
    result = placed(task, some_units(5), more_follows=True)
    assert sizes(result) == [3] and len(result.leftover) == 2 and not result.left_out


def test_a_reusable_dataset_begins_again_where_its_rest_is_too_small() -> None:
    reusable = a_dataset(2, master_id=1, attributes={"reusable": True, "nFilesPerJob": 2})
    pool = Pool(reusable, tuple(some_units(3, dataset_id=2)))
    result = placed(a_task({"nFilesPerJob": 1}), some_units(3), pools=[pool])
    assert [[unit.file_id for unit in one.job.secondary[2]] for one in result.jobs] == [[0, 1]] * 3


def test_an_event_ratio_takes_as_many_files_as_hold_the_events() -> None:
    pool = Pool(
        a_dataset(2, master_id=1, attributes={"eventRatio": 2}), tuple(some_units(9, dataset_id=2, n_events=70))
    )
    result = placed(a_task({"nFilesPerJob": 1}), some_units(3), pools=[pool])
    assert [len(one.job.secondary[2]) for one in result.jobs] == [3, 3, 3]


def test_1500_mb_are_reserved_for_output_beside_n_gb_per_job() -> None:
    assert sizes(placed(a_task({"nGBPerJob": 10}), some_units(12, size_bytes=GB))) == [10, 2]


def test_queues_that_ask_for_more_jobs_together_than_the_input_makes_share_it_all_the_same() -> None:
    queues = [
        a_queue("A", job_chunk_size=5),
        a_queue("B", job_chunk_size=7),
        a_queue("C", job_chunk_size=9, max_jobs=8),
    ]
    result = placed(a_task({"nFilesPerJob": 1}), some_units(4), *queues)
    assert len(result.jobs) == 4 and not result.leftover
