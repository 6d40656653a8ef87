"""How a stored decision and what a task waits for are put into words."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from services.task_definition.tasks.policy.explaining import (
    decision_lines,
    failure_lines,
    latest_first,
    task_meaning,
)
from services.task_definition.tasks.policy.generation_texts import generation_lines
from services.task_definition.tasks.policy.large_numbers import written_out


def a_miss(check: str = "disk_io", *, tier: str = "capacity", temporary: bool = True) -> dict[str, Any]:
    return {"name": "Q0", "check": check, "tier": tier, "temporary": temporary, "found": "has 3 jobs",
            "wanted": "at most 2 jobs"}  # fmt: skip


def a_decision(miss: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    summary = {
        "considered": 3,
        "passed": 0,
        "checks": {"queue_status": 1},
        "tiers": {"configuration": 1},
        "nearest_miss": miss,
    }
    if miss is not None:
        summary["checks"] |= {miss["check"]: 2}
    return {"decision_id": 1, "kind": "job", "chunk_kind": "merge", "chunk_id": 7, "decided_at": "2026-01-01",
            "plugin": "analysis", "summary": summary, "chosen": [], "outcome": "none", "retry_at": None,
            "queues": [] if miss is None else [miss, miss | {"name": "Q1"}]} | changes  # fmt: skip


def text_of(decision: dict[str, Any], *, everything: bool = False) -> str:
    return "\n".join(decision_lines(decision, everything=everything))


def test_chosen_queues_that_are_not_listed_are_counted() -> None:
    names = [f"Q{number}" for number in range(10)]
    assert "chosen: Q0, Q1, Q2, Q3, Q4 and 5 more" in text_of(a_decision(chosen=names))
    assert text_of(a_decision(chosen=names[:5])).endswith(
        "chosen: Q0, Q1, Q2, Q3, Q4\n    left out: 1 queue_status (1 configuration)"
    )


def test_a_throttle_of_the_task_is_told_once_and_not_for_each_queue() -> None:
    text = text_of(a_decision(a_miss("user_running_jobs", tier="policy")), everything=True)
    assert text.count("user_running_jobs") == 1 and "Q0" not in text and "nearest miss" not in text
    assert "the whole task is held by user_running_jobs: has 3 jobs, wanted: at most 2 jobs" in text
    assert "left out before: 1 queue_status" in text


def test_what_holds_a_queue_is_told_with_the_nearest_miss_and_on_demand_for_each_queue() -> None:
    text = text_of(a_decision(a_miss()), everything=True)
    assert "nearest miss: Q0: disk_io: has 3 jobs, wanted: at most 2 jobs" in text
    assert text.count("disk_io (capacity): has 3 jobs, wanted: at most 2 jobs") == 2


def test_the_runtime_parameters_behind_the_nearest_miss_and_the_notes_of_a_decision_are_told() -> None:
    miss = a_miss() | {"parameters": ["jobbroker.MAX_DISKIO_DEFAULT"]}
    decision = a_decision(miss)
    decision["summary"]["notes"] = ["data locality is not waived: priority 500, at least 800"]
    text = text_of(decision)
    assert "governed by jobbroker.MAX_DISKIO_DEFAULT (orrery config list)" in text
    assert "data locality is not waived: priority 500, at least 800" in text
    assert "governed" not in text_of(a_decision(a_miss()))


def test_a_weight_is_shown_with_its_terms() -> None:
    passed = {"name": "Q", "check": None, "weight": 2.5, "terms": {"running": 5.0, "waiting": 0.5, "unused": None}}
    assert "Q: passed, weight 2.5 (running 5, waiting 0.5)" in text_of(a_decision(queues=[passed]), everything=True)


def test_pending_is_called_temporary_only_where_it_may_pass_by_itself() -> None:
    task = {"status": "pending"}
    assert "temporary" in task_meaning(task, [])
    assert "temporary" in task_meaning(task, [a_decision(a_miss())])
    share = a_miss("zero_share", tier="policy", temporary=False)
    assert task_meaning(task, [a_decision(share)]) == (
        "waits for a place: zero_share (policy) stays until somebody changes it"
    )
    mixed = a_decision(share, queues=[share, *(a_miss() | {"name": f"Q/{kind}"} for kind in ("SCORE", "MCORE"))])
    assert task_meaning(task, [mixed]).endswith("; queues left out by what may pass: 1")


def test_large_numbers_are_written_out() -> None:
    assert (
        written_out("free space 3.44771e+07 GB, at least 5e+06 GB") == "free space 34,477,100 GB, at least 5,000,000 GB"
    )
    assert written_out("0.5 GB at task.3e+07x 2e-05") == "0.5 GB at task.3e+07x 2e-05"


def test_transitions_of_one_moment_are_told_in_the_order_in_which_one_led_to_the_next() -> None:
    at, later = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
    path = [
        *((at, None, "registered"), (at, "registered", "defined"), (at, "defined", "assigning")),
        *((later, "assigning", "pending"), (later, "pending", "assigning"), (later, "assigning", "ready")),
    ]
    rows = [{"at": when, "from_status": before, "to_status": after} for when, before, after in path]
    for stored in (rows, rows[::-1], [rows[1], rows[2], rows[0], rows[3], rows[4], rows[5]]):
        told = [(one["from_status"], one["to_status"]) for one in latest_first(stored)]
        assert told[3:] == [("defined", "assigning"), ("registered", "defined"), (None, "registered")]
        assert told[:3] == [("assigning", "ready"), ("pending", "assigning"), ("assigning", "pending")]
    beginning_is_cut = latest_first([rows[1], rows[2]])
    assert [one["to_status"] for one in beginning_is_cut] == ["assigning", "defined"]


def test_one_failed_job_is_one_job_and_most_places_are_named() -> None:
    failure = {"error_source": "payload", "error_code": 65, "error_dialog": "it died", "n_queues": 1}
    failures = [
        {"n_jobs": n, "n_texts": n_texts, **failure, "queues": [{"queue": "CERN", "n_jobs": n}]}
        for n, n_texts in ((1, 1), (2, 1))
    ]
    places = [{"queue": "CERN", "n_jobs": 4}, {"queue": "BNL", "n_jobs": 2}]
    failures.append({"n_jobs": 7, "n_texts": 3, **failure, "n_queues": 3, "queues": places})
    assert failure_lines(failures) == [
        "1 job failed at CERN (1): payload 65 it died",
        "2 jobs failed at CERN (2): payload 65 it died",
        "7 jobs failed at CERN (4), BNL (2) and 1 more queue: payload 65, for example: it died",
    ]


def test_decisions_about_generation_before_the_latest_one_are_told_with_how_often_they_were_taken() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    history = [
        {"first_at": at, "n_times": times, "outcome": outcome, "reason": reason}
        for times, outcome, reason in ((1, "offered", "c"), (3, "throttled", "b"), (1, "scouts", "a"))
    ]
    title, *lines = generation_lines(history)
    assert title == "  before that:"
    assert len(lines) == 2
    assert lines[0].endswith("throttled (3 times): b") and lines[1].endswith("scouts: a")
    assert generation_lines(history[:1]) == []
