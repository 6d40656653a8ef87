"""A job says in every state which time-out rule is next and when, or why there is none."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from services.task_definition.tasks.policy.time_out_texts import time_out
from shared.model.co_jumbo import CO_JUMBO_QUEUE
from shared.states.job import LIVE
from shared.timeouts.built_in import RULES
from shared.timeouts.hearing import Hearing
from shared.timeouts.judging import overdue
from shared.timeouts.limits import DEFAULTS, TimeLimits
from shared.timeouts.rule import Condition, Since, TimeRule, WatchedJob, WatchedQueue

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
JOB = WatchedJob(1, "activated", NOW, NOW, None, 100, "managed", "Q", WatchedQueue(last_job_start_at=NOW))


def told(job: WatchedJob, limits: TimeLimits = DEFAULTS, *added: TimeRule) -> dict[str, Any]:
    return time_out(job, limits, [*added, *RULES], NOW)


@pytest.mark.parametrize("status", LIVE)
def test_what_is_told_of_any_state_is_what_happens(status: Any) -> None:
    job = replace(JOB, status=status)
    found = told(job)
    assert found["rule"] is not None and status in found["text"] and str(found["at"])[:19] in found["text"]
    assert overdue(job, DEFAULTS, found["at"] - timedelta(seconds=1)) is None
    fired = overdue(replace(job, queue=replace(job.queue, last_job_start_at=found["at"])), DEFAULTS, found["at"] + HOUR)
    assert fired is not None and fired.rule == found["rule"]


def test_the_sentence_names_what_happens_when_by_which_rule_and_what_sets_its_limit() -> None:
    assert told(JOB)["text"] == (
        "unless it goes on, it is taken back and sent elsewhere after 2026-03-03 12:00:00 UTC by the rule activated: "
        "activated for 48 h since the last state change (job_timeout.TIMEOUT_activated)"
    )
    urgent = replace(JOB, priority=900, queue=WatchedQueue(status="offline", last_job_start_at=NOW))
    assert "after 2026-03-01 16:00:00 UTC by the rule closed_queue" in told(urgent)["text"]
    assert "priority >= 800, queue offline or test" in told(urgent)["text"]
    silent = replace(JOB, status="running", heartbeat_at=NOW + HOUR)
    assert "given up after 2026-03-01 15:00:00 UTC by the rule heartbeat" in told(silent)["text"]
    theirs = TimeRule("soon", ("activated",), Since.CREATION, 1.0, "closed", 105, "us", Condition(vo="demo"))
    assert told(replace(JOB, vo="demo"), DEFAULTS, theirs)["text"].endswith(
        "since its creation, VO demo (added by demo)"
    )


@pytest.mark.parametrize(
    ("changes", "limits", "says"),
    [
        ({"queue": WatchedQueue(status="paused")}, DEFAULTS, "time-outs are off: the queue is paused"),
        ({"queue": WatchedQueue(disable_reassign=True)}, DEFAULTS, "time-outs are off: the queue has disableReassign"),
        ({"stays": True}, DEFAULTS, "no time-out: its task has disableReassign, and every other limit is 0"),
        ({"status": "waiting", "queue_name": CO_JUMBO_QUEUE}, DEFAULTS, "no time-out: it waits for jumbo jobs"),
        (
            {},
            TimeLimits(hours={"activated": 0.0, "queued": 0.0}),
            "no time-out: the limits of activated, queued are 0",
        ),
    ],
)
def test_a_job_without_a_time_out_says_why(changes: dict[str, Any], limits: TimeLimits, says: str) -> None:
    found = told(replace(JOB, **changes), limits)
    assert found == {"rule": None, "at": None, "text": says}


def test_time_in_which_nobody_could_be_heard_and_graces_come_on_top() -> None:
    running = replace(JOB, status="running", state_changed_at=NOW - HOUR)
    away = Hearing(NOW, ((NOW - HOUR / 2, NOW - HOUR / 4),))
    assert time_out(running, DEFAULTS, RULES, NOW, away)["at"] == NOW + HOUR * 1.25
    back = replace(away, grace_until=NOW + 2 * HOUR)
    assert time_out(running, DEFAULTS, RULES, NOW, back)["at"] == NOW + 2 * HOUR
    assert time_out(JOB, DEFAULTS, RULES, NOW, away)["at"] == NOW + 48 * HOUR
    assert time_out(JOB, DEFAULTS, RULES, NOW, away, NOW + 60 * HOUR)["at"] == NOW + 60 * HOUR
