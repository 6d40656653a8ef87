"""What woken tasks leave of the room at queues."""

from __future__ import annotations

from services.job_brokerage.policy.room_left import RoomLeft, room_of
from shared.brokerage.load import JobCount
from shared.brokerage.room import Held
from shared.waits.causes import Causes
from shared.waits.index import Waiting
from shared.waits.store import Part
from tests.unit.brokerage.worlds import NOW, a_queue, a_world

CAPPED = Held("queued", floor=20, vo="atlas")
#: rows with room for 21, 11 and 1 job: one more decision at the limit itself
QUEUED = {"A": 0, "B": 10, "C": 20}


def left_at() -> RoomLeft:
    jobs = [JobCount(name, "", "activated", n_jobs, "atlas") for name, n_jobs in QUEUED.items()]
    return RoomLeft(a_world([a_queue(name) for name in QUEUED], jobs=jobs), NOW)


def a_task(n_jobs: int, causes: Causes) -> Waiting:
    return Waiting(Part(1, "input", ""), 1, n_jobs, "MC", 100, NOW, NOW, NOW, vo="atlas", causes=causes)


def taken(left: RoomLeft) -> dict[str, int]:
    return {name: left.taken[room_of(name, "atlas")] for name in QUEUED}


def test_jobs_take_room_at_their_own_row_first_and_then_at_the_others_that_held_their_task() -> None:
    left, causes = left_at(), Causes(((CAPPED, ("A", "B", "C")),))
    left.take(a_task(15, causes), "B")
    assert taken(left) == {"A": 4, "B": 11, "C": 0}


def test_a_row_that_did_not_hold_the_task_keeps_its_room() -> None:
    left = left_at()
    left.take(a_task(30, Causes(((CAPPED, ("A", "C")),))), "A")
    assert taken(left) == {"A": 21 + 8, "B": 0, "C": 1}, "more than there is room for is the own row's"


def test_where_all_rows_are_full_the_own_row_alone_takes_more() -> None:
    left, causes = left_at(), Causes(((CAPPED, ("A", "B", "C")),))
    for _ in range(2):
        left.take(a_task(40, causes), "C")
    assert taken(left) == {"A": 21, "B": 11, "C": 1 + 7 + 40}
