"""Which work queue a task belongs to, and what is wrong with a list of them."""

from __future__ import annotations

from typing import Any

import pytest

from services.task_definition.desk.policy.work_queues import WorkQueue, problems_of, without_effect
from services.task_definition.tasks.policy.work_queue_of_task import named_work_queue, work_queue_for
from tests.unit.task_definition.test_refine import spec_of

OWNER = {"user_name": "ada"}


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
        ((queue(1, 1, criteria="userName = 'bob'"), queue(2, 2, criteria="userName IN (:u)", variables="u:ada")), 2),
        ((WorkQueue(1, "q1", "user", "demo"), WorkQueue(2, "q2", "managed", "cms")), None),
        ((), None),
    ],
)
def test_the_first_that_matches_takes_the_task(queues: tuple[WorkQueue, ...], expected: int | None) -> None:
    assert work_queue_for(spec_of(), queues, OWNER) == expected


def test_a_named_work_queue_wins_where_it_takes_the_task_and_any_other_name_is_refused() -> None:
    queues = (
        queue(1), queue(2, criteria="coreCount < 100"), queue(3, status="inactive"), queue(4, partition_id=-1),
        queue(5, criteria="coreCount > 100"), WorkQueue(6, "q6", "user", "demo"), WorkQueue(7, "q7", "managed", "cms"),
    )  # fmt: skip
    assert work_queue_for(spec_of(workQueueName="q2"), queues, OWNER) == 2
    for name in ("q3", "q4", "q5", "q6", "q7", "nowhere"):
        with pytest.raises(LookupError):
            work_queue_for(spec_of(workQueueName=name), queues, OWNER)
        _, [told] = named_work_queue(spec_of(workQueueName=name), queues, "ada")
        assert told.field == "workQueueName" and told.value == repr(name) and "q1, q2" in told.allowed


def test_analysis_does_not_leave_the_gates_of_its_share_for_a_resource_queue() -> None:
    of_resource = WorkQueue(1, "q1", "test", "demo", function="Resource")
    facts = {"prod_source_label": "test", "vo": "demo", "task_type": "prod"}
    assert of_resource.takes(facts) and not of_resource.takes({**facts, "task_type": "anal"})
    [told] = problems_of([WorkQueue(1, "q1", "user", "demo", function="Resource")])
    assert told.field == "work_queues.q1.function" and "stays at the gates of its share" in told.allowed


def test_what_a_work_queue_says_without_effect_is_told() -> None:
    said = without_effect([queue(1, share=40.0), queue(2, stretchable=True), queue(3, partition_id=-1)])
    assert [one.split(" has no effect")[0] for one in said] == ["share of q1", "stretchable of q2"]
    assert without_effect([queue(1)]) == []


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
