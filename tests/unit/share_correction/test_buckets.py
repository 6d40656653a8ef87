"""Usage in buckets: exact for jobs that span them, whatever the order of the events."""

from __future__ import annotations

import random
from collections import defaultdict
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.share_correction.policy.buckets import (
    BucketChange,
    bucket_changes,
    bucket_end,
    confirmed_differences,
    seen_again,
)
from services.share_correction.policy.slices import UsageRow, usage_of
from services.share_correction.policy.virtual_organisations import parts_by_vo
from shared.events.jobs import JobMove
from shared.order.tree import Node
from shared.states.job import JobStatus

EPOCH = datetime(2026, 3, 1, tzinfo=UTC)
WIDTH_S = 300


def at(seconds: float) -> datetime:
    return EPOCH + timedelta(seconds=seconds)


def changes(
    seconds: float, before: JobStatus | None, after: JobStatus, cores: int, queue: str = "Q"
) -> list[BucketChange]:
    move = JobMove(
        task_id=1, queue=queue, resource_type="SCORE", gshare="MC", user_name="ann", from_status=before,
        to_status=after, n_jobs=1, n_cores=cores,
    )  # fmt: skip
    dated, powers = [(None, (move,))], {"STRONG": 20.0}
    return bucket_changes(dated, at(seconds), width_s=WIDTH_S, core_powers_hs06=powers, usual_hs06=10.0)


def used(found: list[BucketChange], since: datetime, now: datetime) -> float:
    """Core seconds from the beginning of a bucket until now, by the sums that are kept of each bucket."""
    buckets: dict[datetime, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for one in found:
        buckets[one.key[0]][0] += one.cores
        buckets[one.key[0]][1] += one.core_s
    return sum(
        level * (now - since).total_seconds() if ends_at <= since else area + level * (now - ends_at).total_seconds()
        for ends_at, (level, area) in buckets.items()
    )


def test_a_job_that_spans_two_buckets_is_counted_exactly() -> None:
    found = changes(60, "sent", "running", 4) + changes(400, "running", "holding", 4)
    assert [(one.key[0], one.cores, one.core_s, one.hs06_s) for one in found] == [
        (at(300), 4, 960.0, 9600.0),
        (at(600), -4, -800.0, -8000.0),
    ]
    assert used(found, at(0), at(600)) == 4 * 340


def test_a_core_counts_with_the_benchmark_of_its_queue() -> None:
    (change,) = changes(0, "starting", "running", 2, "STRONG")
    assert (change.cores, change.hs06, change.hs06_s) == (2, 40.0, 40.0 * WIDTH_S)


def test_a_bucket_begins_with_its_first_moment() -> None:
    assert bucket_end(at(299.999), WIDTH_S) == at(300)
    assert bucket_end(at(300), WIDTH_S) == at(600)


@pytest.mark.parametrize(
    ("before", "after"), [("activated", "sent"), ("sent", "starting"), ("holding", "finished"), (None, "defined")]
)
def test_moves_of_jobs_that_hold_no_cores_change_nothing(before: JobStatus | None, after: JobStatus) -> None:
    assert changes(0, before, after, 8) == []


jobs = st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 3000), st.integers(1, 64)), min_size=1, max_size=12)


@given(jobs, st.integers(0, 8), st.integers(2400, 4000), st.randoms(use_true_random=False))
def test_usage_is_what_ran_whatever_the_order_of_the_events(
    jobs: list[tuple[int, int, int]], first: int, now_s: int, rng: random.Random
) -> None:
    since_s, found, wanted = first * WIDTH_S, list[BucketChange](), 0
    for begin_s, length_s, cores in jobs:
        if begin_s <= now_s:
            found += changes(begin_s, "sent", "running", cores)
        if begin_s + length_s <= now_s:
            found += changes(begin_s + length_s, "running", "failed", cores)
        wanted += cores * max(0, min(now_s, begin_s + length_s) - max(since_s, begin_s))
    rng.shuffle(found)
    assert used(found, at(since_s), at(now_s)) == pytest.approx(wanted)


def test_users_are_counted_when_two_looks_found_them_to_differ_alike_the_smallest_first() -> None:
    one, two, three, four = (("MC", "", name) for name in ("ann", "bob", "cid", "dan"))
    before = {one: (8, 80.0), two: (1, 10.0), four: (3, 30.0)}
    now = {one: ((8, 80.0), 90), two: ((2, 20.0), 1), three: ((1, 10.0), 1), four: ((3, 30.0), 20)}
    assert seen_again(before, now, most_jobs=110) == [four, one]
    assert seen_again(before, now, most_jobs=100) == [four]
    assert seen_again({one: (8, 80.0)}, now, most_jobs=10) == [one], "one alone is never too much"


def test_a_difference_is_corrected_when_the_jobs_say_what_the_statistics_do() -> None:
    suspects = {("MC", "", "ann"): ((8, 80.0), 9), ("MC", "", "bob"): ((2, 20.0), 1)}
    counted = {
        ("MC", "", "A", "ann"): (10, 100.0),
        ("MC", "", "B", "ann"): (-2, -20.0),
        ("MC", "", "", "bob"): (1, 10.0),
    }
    assert confirmed_differences(suspects, counted) == {
        ("MC", "", "A", "ann"): (10, 100.0), ("MC", "", "B", "ann"): (-2, -20.0),
    }  # fmt: skip


def test_usage_is_summed_by_what_is_asked_for() -> None:
    rows = [
        UsageRow(3600, "MC", "atlas", "GP", "ann", 10.0), UsageRow(3600, "MC", "atlas", "GP", "bob", 30.0),
        UsageRow(3600, "Data", "atlas", "", "bob", 0.0), UsageRow(60, "MC", "atlas", "GP", "ann", -1.0),
    ]  # fmt: skip
    assert usage_of(rows, [60, 3600], lambda row: row.gshare) == [{}, {"MC": 40.0}]
    assert usage_of(rows, [3600], lambda row: row.user_name) == [{"ann": 10.0, "bob": 30.0}]


def test_a_share_belongs_to_the_vo_of_the_nearest_share_above_it_that_has_one() -> None:
    nodes = [Node("Production", 1), Node("MC", 1, "Production"), Node("Local", 1), Node("Cms", 1)]
    vos = {"Production": "atlas", "MC": None, "Local": None, "Cms": "cms"}
    parts = parts_by_vo(nodes, vos, {"atlas"})
    assert {vo: [node.name for node in part] for vo, part in parts.items()} == {
        "atlas": ["Production", "MC"], "": ["Local", "Cms"],
    }  # fmt: skip
