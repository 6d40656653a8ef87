"""Input that was cut for one queue is given to others only where they take it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.job_generation.policy.values import JobInput, PlacedJob, QueueFacts
from services.job_generation.splitting.elsewhere import Elsewhere
from shared.task.needs import WorkNeeds
from tests.unit.job_generation.made import a_queue, a_task, some_units


@pytest.mark.parametrize(
    ("what", "queue", "reason"),
    [
        ("scratch space", {"max_work_dir_mb": 1}, "scratch space"),
        ("memory", {"max_rss_mb": 1}, "of memory"),
        ("jobs", {"max_jobs": 0}, "takes no more jobs"),
        ("nothing", {}, None),
    ],
)
def test_a_queue_refuses_input_of_others_as_it_refuses_its_own(
    what: str, queue: dict[str, Any], reason: str | None
) -> None:
    other = a_queue("B", **queue)
    why = Elsewhere(a_task(needs=WorkNeeds(ram_mb=1000)), [a_queue("A"), other]).refusal(
        JobInput(tuple(some_units(1))), other
    )
    assert (why is None) if reason is None else (why is not None and reason in why), what


@given(
    caps=st.lists(st.none() | st.integers(0, 5), min_size=1, max_size=5),
    n_consumers=st.integers(1, 4),
    n_sites=st.integers(1, 4),
    n_inputs=st.integers(1, 6),
)
def test_no_queue_gets_more_jobs_than_it_takes(
    caps: list[int | None], n_consumers: int, n_sites: int, n_inputs: int
) -> None:
    task = a_task({"nEsConsumers": n_consumers, "nSitesPerJob": n_sites})
    queues = [a_queue(f"Q{number}", max_jobs=cap) for number, cap in enumerate(caps)]
    elsewhere, job = Elsewhere(task, queues), JobInput(tuple(some_units(1)))
    drawn = [elsewhere.draw(job, number) for number in range(n_inputs)]
    spread = [elsewhere.spread(one) for one in drawn if isinstance(one, PlacedJob)]
    made = Counter(one.queue.queue for of_input in spread for one in of_input)
    assert all(queue.max_jobs is None or made[queue.queue] <= queue.max_jobs for queue in queues)
    for of_input in spread:
        at = Counter(one.queue.site for one in of_input)
        assert len(at) <= n_sites and max(at.values()) <= n_consumers
    if None in caps:
        assert len(spread) == n_inputs


#: 100 events take 2000 s, and the base walltime besides
DYNAMIC = a_task(
    {"dynamicNumEvents": 10, "nSitesPerJob": 3},
    needs=WorkNeeds(cpu_time_hs06_s_per_event=180.0, cpu_efficiency=0.9, base_walltime_s=0),
)
INPUT = JobInput(tuple(some_units(1)))


def asking(**least_s: int) -> list[QueueFacts]:
    return [a_queue(name, min_time_s=seconds, core_power_hs06=10.0) for name, seconds in least_s.items()]


def test_a_further_queue_with_a_longer_mintime_gets_no_job() -> None:
    queues = asking(A=1000, B=5000, C=2000, D=2001)
    elsewhere = Elsewhere(DYNAMIC, queues)
    assert "at least 5000 s are asked for" in (elsewhere.too_short(INPUT, queues[1]) or "")
    assert [one.queue.queue for one in elsewhere.spread(PlacedJob(queues[0], INPUT))] == ["A", "C"]


def test_mintime_is_asked_only_where_the_number_of_events_is_dynamic() -> None:
    task = a_task({"nSitesPerJob": 2}, needs=DYNAMIC.needs)
    queues = asking(A=1000, B=5000)
    assert [one.queue.queue for one in Elsewhere(task, queues).spread(PlacedJob(queues[0], INPUT))] == ["A", "B"]


@pytest.mark.parametrize(
    ("least_s", "number", "expected"),
    [
        ({"A": 5000, "B": 1000, "C": 1000}, 0, "B"),
        ({"A": 1000, "B": 5000, "C": 1000}, 1, "C"),
        ({"A": 1000, "B": 5000, "C": 1000}, 3, "A"),
        ({"A": 5000, "B": 9000}, 1, "B"),  # it is too short for all, and made nevertheless
    ],
)
def test_a_job_that_is_too_short_for_a_queue_goes_to_the_next_one_in_turn(
    least_s: dict[str, int], number: int, expected: str
) -> None:
    drawn = Elsewhere(DYNAMIC, asking(**least_s)).draw(INPUT, number)
    assert isinstance(drawn, PlacedJob) and drawn.queue.queue == expected
    following = Elsewhere(DYNAMIC, asking(**least_s)).next_for(INPUT, number)
    assert following is not None and following.queue == expected


def test_a_further_attempt_goes_where_it_can_as_long_as_there_is_a_queue() -> None:
    full, small = a_queue("FULL", max_jobs=0), a_queue("SMALL", max_work_dir_mb=1)
    assert Elsewhere(a_task(), [full, small, a_queue("FREE")]).next_for(INPUT, 0) == a_queue("FREE")
    assert Elsewhere(a_task(), [full, small]).next_for(INPUT, 1) == small
    assert Elsewhere(a_task(), []).next_for(INPUT, 1) is None
