"""What a task waits for, in one line."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from services.task_definition.tasks.policy.waiting import joined, waits_for

AT = datetime(2026, 3, 1, 19, 50, tzinfo=UTC)
QUEUE, GRID, USER = "statistics of the queue", "the grid", "usage of the user or group"


def entry(name: str, check: str, found: str, wanted: str, *lifts: str) -> dict[str, Any]:
    return {"name": name, "check": check, "found": found, "wanted": wanted, "lifts": list(lifts)}


def full(name: str, n_jobs: int) -> dict[str, Any]:
    return entry(name, "queued", f"defined, activated, assigned, starting jobs {n_jobs} jobs", "at most 40 jobs", QUEUE)


@pytest.mark.parametrize(
    ("queues", "text"),
    [
        ([full("BNL", 100)], "room at BNL (100 queued of its VO, at most 40) or 19:50 UTC"),
        (
            [full(name, n) for name, n in (("A", 90), ("B", 50), ("C", 1e4), ("D", 60), ("E", 70))],
            "room at B (50 queued of its VO, at most 40), room at D (60 queued of its VO, at most 40), "
            "room at E (70 queued of its VO, at most 40), one of 2 more queues or 19:50 UTC",
        ),
        (
            [full(f"{name}/{kind}", 90) for name in "ABCD" for kind in ("MCORE", "SCORE")],
            "room at A/MCORE (90 queued of its VO, at most 40), room at B/MCORE (90 queued of its VO, at most 40), "
            "room at C/MCORE (90 queued of its VO, at most 40), another queue or 19:50 UTC",
        ),
        ([entry("A", "pilots", "time since a pilot asked 99999 s", "at most 10800 s", QUEUE)],
         "a pilot at A or 19:50 UTC"),
        ([entry("A", "memory_too_large", "memory of a job 9 MB", "maxrss of the queue 1 MB", GRID), full("B", 41)],
         "room at B (41 queued of its VO, at most 40), the grid or 19:50 UTC"),
        ([entry(name, "user_running_jobs", "running jobs of user or group 12 jobs", "at most 10 jobs", USER)
          for name in "AB"],
         "fewer running jobs of user or group 12 jobs (at most 10 jobs) or 19:50 UTC"),
        ([], "19:50 UTC"),
    ],
)  # fmt: skip
def test_a_decision_without_a_place_says_what_would_change_it(queues: list[dict[str, Any]], text: str) -> None:
    assert waits_for({"outcome": "none", "queues": queues, "retry_at": AT}) == text


def test_a_decision_with_a_place_waits_for_nothing() -> None:
    assert waits_for({"outcome": "chosen", "queues": [full("BNL", 100)], "retry_at": None}) == ""


@pytest.mark.parametrize(
    ("texts", "text"), [([], ""), (["a"], "a"), (["a", "b"], "a or b"), (["a", "b", "c"], "a, b or c")]
)
def test_alternatives_are_joined_as_one_says_them(texts: list[str], text: str) -> None:
    assert joined(texts) == text
