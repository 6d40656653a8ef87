"""How many jobs a queue has room for, by its statistics alone."""

from __future__ import annotations

import pytest

from shared.brokerage.load import JobCount
from shared.brokerage.room import DEFAULT_TRANSFERRING_LIMIT, UNCAPPED, Held, room
from tests.unit.brokerage.worlds import NOW, a_queue, a_world

LIMIT = int(DEFAULT_TRANSFERRING_LIMIT)


@pytest.mark.parametrize(
    ("transferring", "queued", "capped", "expected"),
    [(LIMIT, 0, False, UNCAPPED), (LIMIT, 5000, False, UNCAPPED), (LIMIT + 1, 0, False, 0),
     (LIMIT, 5, True, 20 - 5 + 1), (LIMIT, 20, True, 1), (LIMIT, 21, True, 0), (LIMIT + 1, 0, True, 0)],
)  # fmt: skip
def test_a_policy_without_a_cap_on_queued_jobs_has_room_as_long_as_its_own_check_passes(
    transferring: int, queued: int, capped: bool, expected: float
) -> None:
    """At most 20 queued jobs where nothing runs, and one more decision at the limit."""
    jobs = [JobCount("A", "", "transferring", transferring), JobCount("A", "", "activated", queued)]
    held = Held("transferring", floor=20, capped=capped)
    assert room(a_world([a_queue("A")], jobs=jobs), 0, held, NOW) == expected


@pytest.mark.parametrize(("check", "expected"), [("queued", 0), ("of_another_policy", UNCAPPED)])
def test_a_check_that_statistics_do_not_decide_leaves_room_where_nothing_else_caps(check: str, expected: float) -> None:
    world = a_world([a_queue("A")], jobs=[JobCount("A", "", "activated", 100)])
    assert room(world, 0, Held(check, floor=20, capped=False), NOW) == expected
