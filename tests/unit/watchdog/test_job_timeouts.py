"""The table of job timeouts (PanDA brokerage: Timeout Rules), line by line."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.model.co_jumbo import CO_JUMBO_QUEUE
from shared.states import JOB, Owner
from shared.states.job import LIVE
from shared.timeouts.built_in import RULES
from shared.timeouts.judging import ASKED_AGAIN, LONGEST_UNASKED, asked_again, first_asked, overdue
from shared.timeouts.limits import TimeLimits
from shared.timeouts.rule import TimeRule, WatchedJob, WatchedQueue

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
MINUTE = timedelta(minutes=1)


def job(status: str, age: timedelta, **values: object) -> WatchedJob:
    """A job that has been in its state for `age`."""
    facts = WatchedJob(
        job_id=1,
        status=status,
        created_at=NOW - age,
        state_changed_at=NOW - age,
        heartbeat_at=None,
        priority=100,
        label="managed",
        queue_name="Q1",
        queue=WatchedQueue(last_job_start_at=NOW - MINUTE),
    )
    return replace(facts, **values)


#: two workflows with heartbeat limits of their own
LIMITS = TimeLimits(heartbeat_h={"push": 24.0, "patient": 5000.0})
PATIENT = WatchedQueue(workflow="patient", last_job_start_at=NOW - MINUTE)


def closed(status: str) -> WatchedQueue:
    """A queue in a state in which it takes no production, where jobs started a minute ago."""
    return WatchedQueue(status=status, last_job_start_at=NOW - MINUTE)


def test_every_action_is_one_that_the_graph_allows_the_watchdog() -> None:
    for rule in RULES:
        assert set(rule.states) <= set(JOB.sources(rule.next_state, Owner.WATCHDOG)), rule.name


def test_every_live_state_has_a_limit() -> None:
    assert {state for rule in RULES for state in rule.states} == set(LIVE)


@pytest.mark.parametrize(
    ("status", "limit", "action", "values"),
    [
        ("pending", HOUR, "closed", {}),
        ("waiting", 30 * MINUTE, "closed", {}),
        ("defined", 4 * HOUR, "closed", {}),
        ("assigned", 12 * HOUR, "closed", {}),
        ("throttled", 7 * DAY, "closed", {}),
        ("activated", 2 * DAY, "closed", {}),
        ("starting", 2 * DAY, "closed", {"heartbeat_at": NOW}),
        ("activated", 4 * HOUR, "closed", {"priority": 800, "queue": WatchedQueue(last_job_start_at=NOW - 3 * HOUR)}),
        ("activated", 4 * HOUR, "closed", {"priority": 800, "queue": WatchedQueue(last_job_start_at=None)}),
        ("activated", 2 * DAY, "closed", {"priority": 800, "queue": WatchedQueue(last_job_start_at=NOW - HOUR)}),
        ("activated", 2 * DAY, "closed", {"priority": 799, "queue": WatchedQueue(last_job_start_at=NOW - 3 * HOUR)}),
        ("sent", 30 * MINUTE, "failed", {}),
        ("running", 21 * DAY, "failed", {"heartbeat_at": NOW}),
        ("running", 2 * HOUR, "failed", {}),
        ("starting", 2 * HOUR, "failed", {}),
        ("holding", 3 * HOUR, "failed", {"priority": 800}),
        ("holding", 48 * HOUR, "failed", {"priority": 799}),
        ("transferring", 2 * DAY, "failed", {"priority": 800}),
        ("transferring", 7 * DAY, "failed", {"priority": 799}),
        ("transferring", 3 * DAY, "failed", {"queue": WatchedQueue(transfer_time_low_days=3)}),
        ("activated", 4 * HOUR, "closed", {"priority": 800, "queue": closed("offline")}),
        ("starting", 4 * HOUR, "closed", {"priority": 800, "queue": closed("test"), "heartbeat_at": NOW}),
        ("activated", 2 * DAY, "closed", {"priority": 799, "queue": closed("offline")}),
        ("activated", 2 * DAY, "closed", {"priority": 800, "queue": closed("brokeroff")}),
        ("activated", 30 * MINUTE, "closed", {"job_type": "merge", "producers_gone": True}),
        ("running", 30 * MINUTE, "closed", {"job_type": "merge", "producers_gone": True, "heartbeat_at": NOW}),
        ("activated", 2 * DAY, "closed", {"job_type": "merge"}),
        ("merging", 21 * DAY, "failed", {}),
        ("merging", 7 * DAY, "failed", {"label": "user"}),
        ("running", 7 * DAY, "failed", {"label": "user", "heartbeat_at": NOW - 7 * DAY, "queue": PATIENT}),
        ("holding", 21 * DAY, "failed", {"report_waits": True, "priority": 900}),
        ("transferring", 24 * HOUR, "failed", {"own_stage_out": True, "queue": WatchedQueue(workflow="push")}),
        ("transferring", 7 * DAY, "failed", {"own_stage_out": True}),
        ("transferring", 7 * DAY, "failed", {"queue": WatchedQueue(workflow="push")}),
    ],
)
def test_a_job_ends_when_it_passes_its_limit_and_not_before(
    status: str, limit: timedelta, action: str, values: dict[str, object]
) -> None:
    assert overdue(job(status, limit, **values), LIMITS, NOW) is None
    late = replace(job(status, limit + timedelta(seconds=1), **values))
    if late.heartbeat_at is not None and late.heartbeat_at == NOW - limit:
        late = replace(late, heartbeat_at=late.state_changed_at)
    verdict = overdue(late, LIMITS, NOW)
    assert verdict is not None and verdict.to_status == action


@pytest.mark.parametrize("status", ["defined", "running", "sent", "activated", "transferring"])
@pytest.mark.parametrize("queue", [WatchedQueue(status="paused"), WatchedQueue(disable_reassign=True)])
def test_nothing_expires_at_a_paused_queue_or_one_that_disables_reassignment(status: str, queue: WatchedQueue) -> None:
    assert overdue(job(status, 100 * DAY, queue=queue), TimeLimits(), NOW) is None


@pytest.mark.parametrize(
    ("status", "ends"),
    [("defined", False), ("activated", False), ("sent", True), ("running", True), ("starting", True)],
)
def test_a_job_of_a_task_that_disables_reassignment_is_not_sent_elsewhere_but_its_pilot_may_be_lost(
    status: str, ends: bool
) -> None:
    verdict = overdue(job(status, 100 * DAY, stays=True), TimeLimits(), NOW)
    assert (verdict is not None) == ends and (verdict is None or verdict.to_status == "failed")


@pytest.mark.parametrize("status", ["pending", "throttled"])
def test_what_counts_from_creation_does_not_begin_anew_with_a_change_of_state(status: str) -> None:
    limits = replace(LIMITS, hours={**LIMITS.hours, "queued": 0.0})  # which counts from creation, too
    limit = {"pending": HOUR, "throttled": 7 * DAY}[status]
    young = job(status, MINUTE, created_at=NOW - limit)
    assert overdue(young, limits, NOW) is None
    verdict = overdue(replace(young, created_at=NOW - limit - MINUTE), limits, NOW)
    assert verdict is not None and verdict.rule == status and "after its creation" in verdict.reason


def test_an_offline_queue_has_the_usual_limits() -> None:
    assert overdue(job("activated", 3 * DAY, queue=WatchedQueue(status="offline")), TimeLimits(), NOW) is not None


def test_a_heartbeat_counts_from_the_last_sign_of_life() -> None:
    spoke = job("running", 10 * DAY, heartbeat_at=NOW - HOUR)
    assert overdue(spoke, TimeLimits(), NOW) is None
    verdict = overdue(replace(spoke, heartbeat_at=NOW - 3 * HOUR), TimeLimits(), NOW)
    assert verdict is not None and verdict.rule == "heartbeat" and "lost heartbeat" in verdict.reason


@pytest.mark.parametrize(
    ("workflow", "label", "hours"),
    [("", "managed", 2), ("", "user", 6), ("push", "managed", 24), ("push", "user", 24), ("pull_ups", "managed", 2)],
)
def test_a_workflow_with_a_heartbeat_limit_of_its_own_has_it_and_others_that_of_their_kind(
    workflow: str, label: str, hours: int
) -> None:
    limits = TimeLimits(heartbeat_h={"push": 24.0, "analysis": 6.0})
    queue = WatchedQueue(workflow=workflow)
    assert overdue(job("running", hours * HOUR, label=label, queue=queue), limits, NOW) is None
    assert overdue(job("running", hours * HOUR + MINUTE, label=label, queue=queue), limits, NOW) is not None


def test_jobs_that_wait_for_jumbo_jobs_do_not_expire() -> None:
    assert overdue(job("waiting", 3 * DAY, queue_name=CO_JUMBO_QUEUE), TimeLimits(), NOW) is None
    assert overdue(job("waiting", 3 * DAY), TimeLimits(), NOW) is not None


def test_a_job_released_again_and_again_is_closed_seven_days_after_its_creation() -> None:
    young_state = job("activated", HOUR, created_at=NOW - 7 * DAY - MINUTE)
    verdict = overdue(young_state, TimeLimits(), NOW)
    assert verdict is not None and verdict.rule == "queued"


def test_limits_are_parameters() -> None:
    assert overdue(job("defined", 2 * HOUR), TimeLimits(hours={"defined": 1.0}), NOW) is not None
    assert overdue(job("defined", 20 * HOUR), TimeLimits(hours={"defined": 30.0}), NOW) is None


def test_jobs_that_end_for_one_reason_share_one_sentence() -> None:
    first, second = (
        overdue(job("sent", HOUR), TimeLimits(), NOW),
        overdue(job("sent", 2 * HOUR), TimeLimits(), NOW),
    )
    assert first == second


@pytest.mark.parametrize("queue", [WatchedQueue(status="paused"), WatchedQueue(disable_reassign=True)])
def test_a_queue_that_left_the_grid_says_why_its_jobs_still_have_no_limits(queue: WatchedQueue) -> None:
    gone = replace(queue, absent_since=NOW - HOUR)
    assert overdue(job("running", 100 * DAY, queue=gone), TimeLimits(), NOW) is None
    assert gone.off is not None and gone.off.endswith("before it left the grid")
    assert replace(WatchedQueue(), absent_since=NOW - HOUR).off is None


QUEUES = {
    "OFFLINE": closed("offline"),
    "BUSY": WatchedQueue(last_job_start_at=NOW - MINUTE),
    "QUIET": WatchedQueue(last_job_start_at=NOW - 3 * HOUR),
    "PAUSED": WatchedQueue(status="paused"),
    "PUSH": WatchedQueue(workflow="push", transfer_time_high_days=0.0, transfer_time_low_days=1.0),
    CO_JUMBO_QUEUE: WatchedQueue(),
}
AGES = st.integers(0, 31 * 24 * 60).map(lambda minutes: minutes * MINUTE)


JOBS = st.builds(
    lambda age, in_state, silent_for, queue, facts_of: replace(
        WatchedJob(1, "running", NOW - age, NOW - min(age, in_state), None, 100, "managed", "Q1"),
        heartbeat_at=None if silent_for is None else NOW - min(age, in_state, silent_for),
        queue_name=queue,
        queue=QUEUES.get(queue, WatchedQueue()),
        **facts_of,
    ),
    age=AGES,
    in_state=AGES,
    silent_for=st.none() | AGES,
    queue=st.sampled_from([*QUEUES, "GONE"]),
    facts_of=st.fixed_dictionaries(
        {name: st.booleans() for name in ("own_stage_out", "producers_gone", "report_waits", "in_job_set", "stays")}
        | {
            "status": st.sampled_from(sorted(LIVE)),
            "priority": st.sampled_from([100, 799, 800, 900]),
            "label": st.sampled_from(["managed", "user", "panda"]),
            "job_type": st.sampled_from(["normal", "merge"]),
        }
    ),
)
OFF = st.sampled_from([None, *(rule.name for rule in RULES)])


def limits_without(off: str | None) -> TimeLimits:
    return TimeLimits(hours={off: 0.0} if off else {}, heartbeat_h={"push": 1.0, "analysis": 6.0})


@given(facts=JOBS, off=OFF, later=st.integers(1, 24 * 60).map(lambda minutes: minutes * MINUTE))
def test_no_rule_ends_a_job_before_it_is_asked_again(facts: WatchedJob, off: str | None, later: timedelta) -> None:
    limits = limits_without(off)
    if overdue(facts, limits, NOW) is not None:
        return
    at = asked_again(facts, limits, NOW)
    assert NOW <= at <= NOW + LONGEST_UNASKED
    assert overdue(facts, limits, min(at, NOW + later)) is None


@given(facts=JOBS, off=OFF)
def test_no_rule_ends_a_job_before_it_is_asked_about_for_the_first_time(facts: WatchedJob, off: str | None) -> None:
    limits = limits_without(off)
    after_change, after_creation = first_asked(limits, QUEUES.values())[facts.status]
    at_closed = facts.is_analysis and facts.queue.closed_to_analysis  # found within half an hour, not at once
    if overdue(facts, limits, NOW) is not None and not at_closed:
        changed, created = NOW - facts.state_changed_at, NOW - facts.created_at
        assert changed > after_change or (after_creation is not None and created > after_creation)


def test_a_job_is_asked_about_when_its_limit_has_passed_or_a_rule_may_have_come_to_hold() -> None:
    limits = TimeLimits()
    heard = job("running", 3 * HOUR, heartbeat_at=NOW - HOUR)
    assert asked_again(heard, limits, NOW) == NOW + HOUR
    assert asked_again(job("activated", HOUR), limits, NOW) == NOW + DAY, "47 h are left: it is asked once a day"
    urgent = job("activated", 5 * HOUR, priority=800, queue=WatchedQueue(last_job_start_at=NOW - HOUR))
    assert asked_again(urgent, limits, NOW) == NOW + HOUR, "then its queue is quiet, unless another job starts"
    held = job("holding", 5 * HOUR, priority=800, report_waits=True)
    assert asked_again(held, limits, NOW) == NOW + ASKED_AGAIN
    assert asked_again(job("sent", DAY, queue=WatchedQueue(status="paused")), limits, NOW) == NOW + LONGEST_UNASKED


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_limit_of_0_switches_its_rule_off(rule: TimeRule) -> None:
    limits = TimeLimits(hours={rule.name: 0.0}, heartbeat_h={"production": 0.0}, transferring_scale=0.0)
    for state in rule.states:
        facts = job(state, MINUTE, priority=900)
        assert overdue(facts, limits, NOW) is None
        verdict = overdue(job(state, 300 * DAY, priority=900), limits, NOW)
        assert verdict is None or verdict.rule != rule.name
