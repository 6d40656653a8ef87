"""Which work queue a task belongs to, and what is wrong with a list of them."""

from __future__ import annotations

from typing import Any

import pytest

from services.task_definition.policy.work_queues import WorkQueue, problems_of, work_queue_for
from tests.unit.task_definition.test_refine import spec_of


def queue(queue_id: int, order: int | None = None, **fields: Any) -> WorkQueue:
    return WorkQueue(queue_id, f"q{queue_id}", "managed", "demo", order=order, **fields)


@pytest.mark.parametrize(
    ("queues", "expected"),
    [
        ((queue(1, 20), queue(2, 10)), 2),
        ((queue(1), queue(2, 99)), 2),  # without an order last
        ((queue(2), queue(1)), 1),
        ((queue(1, 1, status="inactive"), queue(2, 2)), 2),
        ((queue(1, 1, partition_id=-1), queue(2, 2, partition_id=1)), 2),
        ((queue(1, 1, criteria="coreCount > 100"), queue(2, 2)), 2),
        ((queue(1, 1, criteria="prodSourceLabel = :l", variables="l:managed"), queue(2, 2)), 1),
        ((queue(1, 1, criteria="eventService = 1"), queue(2, 2, criteria="eventService = 0")), 2),
        ((WorkQueue(1, "q1", "user", "demo"), WorkQueue(2, "q2", "managed", "cms")), None),
        ((), None),
    ],
)
def test_the_first_that_matches_takes_the_task(queues: tuple[WorkQueue, ...], expected: int | None) -> None:
    assert work_queue_for(spec_of(), queues) == expected


def test_a_named_work_queue_wins_and_an_unknown_name_is_refused() -> None:
    queues = (queue(1), queue(2, criteria="coreCount > 100"), queue(3, status="inactive"), queue(4, partition_id=-1))
    assert work_queue_for(spec_of(workQueueName="q2"), queues) == 2
    for name in ("q3", "q4", "nowhere"):
        with pytest.raises(LookupError):
            work_queue_for(spec_of(workQueueName=name), queues)


@pytest.mark.parametrize(
    ("queues", "field"),
    [
        ((queue(1, 5), queue(2, 5)), "work_queues.q2.order"),
        ((queue(1), WorkQueue(1, "other", "managed", "demo")), "work_queues.other.queue_id"),
        ((queue(1), WorkQueue(2, "q1", "managed", "demo")), "work_queues.q1.name"),
        ((queue(1, partition_id=7),), "work_queues.q1.partition_id"),
        ((queue(1), queue(2, partition_id=1)), "work_queues.q2.partition_id"),
        ((queue(1, partition_id=-1, criteria="coreCount = 1"),), "work_queues.q1.criteria"),
        ((queue(1, criteria="status = 'x'"),), "work_queues.q1.criteria"),
        ((queue(1, variables="p:x"),), "work_queues.q1.variables"),
    ],
)
def test_a_list_that_makes_no_sense_is_refused_with_the_field(queues: tuple[WorkQueue, ...], field: str) -> None:
    assert [one.field for one in problems_of(queues)] == [field]


def test_two_vos_may_use_one_name_and_queues_without_an_order() -> None:
    assert problems_of((queue(1), WorkQueue(2, "q1", "managed", "cms"), queue(3, partition_id=-1))) == []
