"""How many jobs are before a waiting one: a range, with what is counted and what is not."""

from __future__ import annotations

import pytest

from services.task_definition.tasks.policy.position import Position, ShareBeside, position_of
from shared.order.tree import Node


def share(name: str, used: float, n_here: int, value: float = 50) -> ShareBeside:
    return ShareBeside(Node(name, value, None), used, n_here, n_here)


@pytest.mark.parametrize(
    ("shares", "at_least", "at_most", "before", "behind"),
    [
        ([share("A", 100, 6), share("B", 0, 10)], 2, 15, {"B": 10}, 0),  # the worked example
        ([share("A", 0, 6), share("B", 100, 10)], 2, 5, {}, 10),
        ([share("A", 100, 6), share("B", 0, 0)], 2, 5, {}, 0),
        ([share("A", 100, 6), share("B", 50, 10), share("C", 0, 7)], 2, 22, {"C": 7, "B": 10}, 0),
        ([share("A", 50, 6), share("B", 100, 10), share("C", 0, 7)], 2, 12, {"C": 7}, 10),
        ([], 2, 5, {}, 0),
    ],
)
def test_shares_before_it_and_better_jobs_of_its_own_count(
    shares: list[ShareBeside], at_least: int, at_most: int, before: dict[str, int], behind: int
) -> None:
    found = position_of("A", 2, 5, shares)
    assert (found.at_least, found.at_most, dict(found.before), found.behind) == (at_least, at_most, before, behind)
    assert list(found.before) == list(before), "in the order in which they are served"


def test_the_text_says_what_is_counted_and_names_the_shares_before_it() -> None:
    first, counted, uncounted, waits = Position("A", 2, 5, {"B": 10}, 3).lines()
    assert first == "position: 2 to 15 of the jobs that wait at this queue are served before it"
    assert "in its lane (2" in counted and "better priority (5)" in counted and "ranked before it (10)" in counted
    assert "jobs that come" in uncounted and "3 jobs of shares ranked behind" in uncounted
    assert waits == "waits for its share (class share): ranked before A now: B (10)"
    assert len(Position("A", 2, 5, {}, 3).lines()) == 3


def test_a_job_of_a_task_queue_may_have_any_other_drawn_before_it() -> None:
    shares = [ShareBeside(Node("A", 1), 0.0, 7, 7), ShareBeside(Node("B", 1), 5.0, 4, 4)]
    drawn = position_of("A", 2, 3, shares, is_drawn=True)
    assert (drawn.at_least, drawn.at_most) == (0, 10)
    assert "drawn by weight" in drawn.lines()[1]
