from __future__ import annotations

import numpy as np
import pytest

from shared.brokerage.columns import build_columns
from shared.brokerage.load import Activity, JobCount, Load
from shared.brokerage.weights import running_number
from shared.model.resource_types import DEFAULT_RESOURCE_TYPES
from tests.unit.brokerage.worlds import NOW, a_queue, a_world


def test_a_unified_queue_has_a_row_for_each_resource_type_and_any_other_queue_one() -> None:
    whole = a_queue("B", core_count=8, max_rss_mb=16000)
    unified = a_queue("A", capability="ucore", core_count=8, max_rss_mb=32000)
    columns = build_columns({"B": whole, "A": unified}, DEFAULT_RESOURCE_TYPES)
    assert columns.labels == ("A/SCORE", "A/SCORE_HIMEM", "A/MCORE", "A/MCORE_HIMEM", "B")
    assert columns.core_count.tolist() == [1, 1, 8, 8, 8]
    assert columns.max_rss_mb.tolist() == [2000, 4000, 16000, 32000, 16000]
    assert columns.min_rss_mb.tolist() == [0, 2001, 0, 16001, 0]


def test_a_single_core_queue_has_no_multi_core_part() -> None:
    columns = build_columns({"A": a_queue("A", capability="ucore", core_count=1)}, DEFAULT_RESOURCE_TYPES)
    assert columns.labels == ("A/SCORE", "A/SCORE_HIMEM")


def test_a_slot_has_its_cores_part_of_the_work_directory() -> None:
    queue = a_queue("A", capability="ucore", core_count=8, max_work_dir_mb=160_000)
    columns = build_columns({"A": queue}, DEFAULT_RESOURCE_TYPES)
    assert columns.work_dir_mb.tolist() == [20_000, 20_000, 160_000, 160_000]


def test_columns_cannot_be_written() -> None:
    columns = build_columns({"A": a_queue("A")}, DEFAULT_RESOURCE_TYPES)
    with pytest.raises(ValueError, match="read-only"):
        columns.core_count[0] = 5


def test_a_pseudo_queue_can_be_named() -> None:
    world = a_world([a_queue("A", capability="ucore", core_count=8), a_queue("B")])
    named = world.columns.rows_named(["A/MCORE", "B", "UNKNOWN"])
    assert [label for label, yes in zip(world.columns.labels, named, strict=True) if yes] == ["A/MCORE", "B"]


@pytest.mark.parametrize(
    ("named", "rows"),
    [(["CERN"], ["A/MCORE", "A/SCORE", "B"]), (["CERN/MCORE"], ["A/MCORE", "B"]), (["BNL"], ["BNL"]),
     (["CERN", "BNL"], ["A/MCORE", "A/SCORE", "B", "BNL"]), (["NOWHERE"], []), (["B*"], ["B", "BNL"]),
     (["C*N"], ["A/MCORE", "A/SCORE", "B"]), (["*/MCORE"], ["A/MCORE", "B", "BNL", "C"]), (["B.*"], [])],
)  # fmt: skip
def test_a_site_names_all_its_queues_unless_a_queue_has_that_name(named, rows) -> None:
    world = a_world([
        a_queue("A", "CERN", capability="ucore", core_count=8, max_rss_mb=1000), a_queue("B", "CERN"),
        a_queue("BNL", "BNL"), a_queue("C", "BNL"),
    ])  # fmt: skip
    mask = world.columns.rows_named(named)
    found = [label for label, yes in zip(world.columns.labels, mask, strict=True) if yes and "HIMEM" not in label]
    assert sorted(found) == rows


def test_jobs_are_counted_at_the_row_of_their_resource_type_and_sent_counts_as_starting() -> None:
    jobs = [
        JobCount("A", "SCORE", "running", 3), JobCount("A", "MCORE", "running", 5), JobCount("A", "MCORE", "sent", 2),
        JobCount("A", "MCORE", "starting", 1), JobCount("B", "SCORE", "activated", 4),
        JobCount("B", "MCORE", "activated", 1), JobCount("GONE", "SCORE", "running", 9),
        JobCount("A", "SCORE", "finished", 9),
    ]  # fmt: skip
    world = a_world([a_queue("A", capability="ucore", core_count=8), a_queue("B", core_count=8)], jobs=jobs)
    rows = {label: row for row, label in enumerate(world.columns.labels)}
    assert world.load.running[rows["A/SCORE"]] == 3
    assert world.load.running[rows["A/MCORE"]] == 5
    assert world.load["starting"][rows["A/MCORE"]] == 3
    assert world.load["activated"][rows["B"]] == 5


def test_only_the_named_queues_change_when_the_load_is_updated() -> None:
    world = a_world(
        [a_queue("A"), a_queue("B")], jobs=[JobCount("A", "", "running", 1), JobCount("B", "", "running", 2)]
    )
    load = world.load.updated(
        world.columns, [JobCount("A", "", "activated", 7)], [Activity("A", last_pilot_at=NOW)], ["A"]
    )
    assert load.running.tolist() == [0, 2]
    assert load["activated"].tolist() == [7, 0]
    assert load.last_pilot_s[0] == NOW.timestamp() and np.isnan(load.last_pilot_s[1])
    assert world.load.running.tolist() == [1, 2], "the old load is untouched"


def test_an_update_of_everything_equals_a_load_read_at_once() -> None:
    world = a_world([a_queue("A"), a_queue("B")])
    jobs = [JobCount("A", "", "running", 1), JobCount("B", "", "defined", 2)]
    stepwise = world.load.updated(world.columns, jobs, [], ["A"]).updated(world.columns, jobs, [], ["B"])
    assert np.array_equal(stepwise.counts, Load.of(world.columns, jobs).counts)


def test_a_vo_sees_its_own_jobs_and_the_pilots_workers_and_slots_of_the_whole_queue() -> None:
    jobs = [JobCount("A", "", "running", 1, "atlas"), JobCount("A", "", "running", 5, "cms")]
    jobs += [JobCount("A", "", "activated", 240, "cms"), JobCount("B", "", "activated", 3)]
    world = a_world([a_queue("A"), a_queue("B")], jobs=jobs, activities=[Activity("A", NOW, n_slots=7)])
    assert (world.load["activated"].tolist(), world.load.running.tolist()) == ([240, 3], [6, 0]), "whoever's they are"
    for vo, activated, running in (("atlas", [0, 0], [1, 0]), ("cms", [240, 0], [5, 0]), ("", [0, 3], [0, 0])):
        load = world.of_vo(vo).load
        assert (load["activated"].tolist(), load.running.tolist()) == (activated, running), vo
        assert load.n_slots.tolist() == [7, -1] and load.last_pilot_s[0] == NOW.timestamp()
    assert world.of_vo("new").load.counts.sum() == 0
    row = world.columns.row_of_label["A"]
    expected = world.load.with_assigned({("atlas", row): 2, ("new", row): 4})
    assert [expected.of_vo(vo)["defined"][row] for vo in ("atlas", "cms", "new")] == [2, 0, 4]
    assert expected["defined"][row] == 6 and world.load.of_vo("atlas")["defined"][row] == 0
    again = expected.updated(world.columns, [JobCount("A", "", "running", 2, "cms")], [], ["A"])
    assert [again.of_vo(vo).running[row] for vo in ("atlas", "cms", "new")] == [0, 2, 0]
    assert again.counts[:, row].sum() == 2 and again["activated"].tolist() == [0, 3]


def test_a_count_that_is_below_zero_for_a_moment_is_taken_as_zero() -> None:
    world = a_world([a_queue("A")], jobs=[JobCount("A", "", "activated", -2)])
    assert world.load["activated"].tolist() == [0]


@pytest.mark.parametrize(
    ("n_slots", "of_type", "expected"),
    [
        (None, {}, [-1, -1, -1, -1]),
        (100, {}, [25, 25, 25, 25]),
        (2, {}, [0.5, 0.5, 0.5, 0.5]),
        (0, {}, [0, 0, 0, 0]),
        (None, {"MCORE": 40}, [-1, -1, 40, -1]),
        (90, {"MCORE": 40}, [30, 30, 40, 30]),
        (90, {"SCORE": 1, "SCORE_HIMEM": 2, "MCORE": 0, "MCORE_HIMEM": 4}, [1, 2, 0, 4]),
        (None, {"GONE": 7}, [-1, -1, -1, -1]),
    ],
)
def test_slots_of_a_unified_queue_are_those_of_each_resource_type_and_never_more_than_were_set(
    n_slots, of_type, expected
) -> None:
    unified = a_queue("A", capability="ucore", core_count=8)
    world = a_world([unified], activities=[Activity("A", n_slots=n_slots, slots_of_type=of_type)])
    assert world.columns.resource_types == ("SCORE", "SCORE_HIMEM", "MCORE", "MCORE_HIMEM")
    assert world.load.n_slots.tolist() == expected


@pytest.mark.parametrize(
    ("n_slots", "of_type", "expected"),
    [(None, {}, -1), (5, {}, 5), (5, {"SCORE": 3, "MCORE": 4}, 12), (None, {"SCORE": 0}, 0)],
)
def test_slots_of_any_other_queue_are_added_up(n_slots, of_type, expected) -> None:
    world = a_world([a_queue("A")], activities=[Activity("A", n_slots=n_slots, slots_of_type=of_type)])
    assert world.load.n_slots.tolist() == [expected]


def test_workers_of_a_unified_queue_are_counted_once() -> None:
    unified = a_queue("A", capability="ucore", core_count=8)
    world = a_world(
        [unified, a_queue("B")], activities=[Activity("A", None, None, 6, 2), Activity("B", None, None, 6, 2)]
    )
    assert world.load.n_workers.tolist() == [2, 2, 2, 2, 8]
    assert running_number(world).tolist() == [2, 2, 2, 2, 8]
