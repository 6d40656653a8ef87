"""Bytes and names."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.events import ENTRIES, ConfigChanged, TaskCompleted, TaskDefined
from shared.messaging.codec import MAX_BODY_BYTES, Undecodable, decode, encode
from shared.messaging.dead_letters import _ids, _origin
from shared.messaging.failure_records import RetryPolicy
from shared.messaging.subscription import Delivery, consumer_name
from shared.messaging.topology import Topology

WHEN = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


@given(st.integers(1, 2**62), st.integers(-(2**62), 2**62))
def test_an_event_survives_the_bus(event_id: int, task_id: int) -> None:
    event = TaskDefined(event_id=event_id, occurred_at=WHEN, task_id=task_id)
    assert decode(TaskDefined, encode(event), routing_key="task.defined.v1") == event


@given(st.binary(max_size=200))
def test_no_bytes_make_decoding_raise_anything_but_undecodable(body: bytes) -> None:
    with pytest.raises(Undecodable):
        decode(TaskDefined, body, routing_key="task.defined.v1")


@pytest.mark.parametrize(
    ("body", "key", "reason"),
    [
        (b"[]", "task.defined.v1", "not a valid task.defined.v1"),
        (b'{"event_id":1,"occurred_at":"2026-01-01T00:00:00Z"}', "task.defined.v1", "task_id: Field required"),
        (b'{"event_id":1,"occurred_at":"2026-01-01T00:00:00Z","task_id":1}', "task.defined.v2", "unknown version"),
        (b'{"event_id":0,"occurred_at":"2026-01-01T00:00:00Z","task_id":1}', "task.defined.v1", "outbox"),
        (b'{"event_id":1,"task_id":1}', "task.defined.v1", "outbox"),
        (b" " * (MAX_BODY_BYTES + 1), "task.defined.v1", f"allowed are {MAX_BODY_BYTES}"),
    ],
)
def test_what_cannot_be_decoded_says_why(body: bytes, key: str, reason: str) -> None:
    with pytest.raises(Undecodable, match=reason):
        decode(TaskDefined, body, routing_key=key)


def test_a_newer_publisher_may_add_fields() -> None:
    body = b'{"event_id":1,"occurred_at":"2026-01-01T00:00:00Z","task_id":1,"colour":"red"}'
    assert decode(TaskDefined, body, routing_key="task.defined.v1").task_id == 1


def test_one_search_finds_the_whole_path() -> None:
    assert consumer_name("task_brokerage", TaskDefined) == "task-brokerage.task-defined"
    assert Topology().queue_of("task-brokerage.task-defined") == "task-brokerage.task-defined"
    assert Topology("x").queue_of("task-brokerage.task-defined") == "x.task-brokerage.task-defined"
    assert Topology("x").consumer_of("x.task-brokerage.task-defined") == "task-brokerage.task-defined"


def test_every_pair_of_the_catalogue_has_a_queue_of_its_own() -> None:
    queues = Topology().work_queues()
    assert len({queue.name for queue in queues}) == len(queues) == sum(len(entry.consumers) for entry in ENTRIES)
    assert all(set(queue.name) <= set("abcdefghijklmnopqrstuvwxyz-.") for queue in queues)


def test_only_news_may_go_nowhere() -> None:
    topology = Topology()
    assert not topology.needs_queue(ConfigChanged.routing_key())
    assert topology.needs_queue(TaskDefined.routing_key())
    assert topology.needs_queue("task.unheard_of.v1")


def test_the_origin_of_a_dead_message_is_in_its_header() -> None:
    assert _origin({"x-death": [{"queue": "a.b", "reason": "delivery_limit"}]}) == ("a.b", "delivery_limit")
    assert _origin({}) == ("unknown", "unknown")


@pytest.mark.parametrize(
    ("body", "ids"),
    [
        (b'{"event_id": 5, "task_id": 6}', (5, 6)),
        (b'{"event_id": -5, "task_id": true}', (None, None)),
        (b'{"event_id": 1e300}', (None, None)),
        (b"[1]", (None, None)),
        (b"nonsense", (None, None)),
    ],
)
def test_ids_are_taken_from_a_dead_message_where_it_has_them(body: bytes, ids: tuple[int | None, int | None]) -> None:
    assert _ids(body) == ids


def test_delays_between_tries_grow_and_end_at_ten_minutes() -> None:
    policy = RetryPolicy()
    delays = [policy.delay_s(attempts) for attempts in range(1, 8)]
    assert delays == [1.0, 5.0, 25.0, 125.0, 600.0, 600.0, 600.0]


def test_a_delivery_from_the_bus_was_not_tried_before() -> None:
    assert Delivery("a.b", "a.b.v1", b"").attempts == 0


def test_a_state_that_this_version_does_not_know_is_refused_by_name() -> None:
    body = b'{"event_id":1,"occurred_at":"2026-01-01T00:00:00Z","task_id":1,"status":"vanished"}'
    with pytest.raises(Undecodable, match=r"task\.completed\.v1: status: Input should be 'registered'"):
        decode(TaskCompleted, body, routing_key="task.completed.v1")
