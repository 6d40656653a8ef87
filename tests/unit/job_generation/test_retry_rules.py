"""Rules about errors of jobs: which one decides, and what it means for files and task."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.job_generation.policy.memory import (
    RAM_STEPS_MB,
    JobMemory,
    RetryMemory,
    asked_ram_mb,
    next_ram_mb,
    ram_of_whole_task,
    times_ram_mb,
)
from services.job_generation.policy.outcomes import Attempts, Ended, of_input
from services.job_generation.retry.engine import decide, errors_of
from services.job_generation.retry.problems import problems_of
from services.job_generation.retry.remedies import (
    SlowQueue,
    cpu_time_from,
    is_broken,
    limited,
    reduced_rules,
)
from services.job_generation.retry.types import FailedWork, JobError, RetryDecision, RetryRule
from shared.model.job_report import JobReport
from shared.task.in_effect import rules_of
from shared.task.needs import WorkNeeds
from shared.task.stored import name_of
from tests.unit.brokerage.conformance import sample

NOW = datetime(2026, 1, 2, tzinfo=UTC)
WORK = FailedWork("x86_64-centos7", "Release-21", 7)
ERROR = JobError("pilot", 1099, "out of memory at node")
RULE = RetryRule(1, "pilot", 1099, "no_retry")


@pytest.mark.parametrize(
    ("changed", "error", "fits"),
    [
        ({}, ERROR, True),
        ({"code": None}, ERROR, True),
        ({"code": 65}, ERROR, False),
        ({"source": "payload"}, ERROR, False),
        ({"pattern": "out of"}, ERROR, True),
        ({"pattern": "memory"}, ERROR, False),  # from the first letter
        ({"pattern": ".*memory"}, ERROR, True),
        ({"architecture": "x86_64-centos7"}, ERROR, True),
        ({"architecture": "aarch64"}, ERROR, False),
        ({"release": "Release-22"}, ERROR, False),
        ({"work_queue_id": 7, "release": "Release-21"}, ERROR, True),
        ({"work_queue_id": 8}, ERROR, False),
        ({"expires_at": NOW}, ERROR, False),
        ({"expires_at": NOW + timedelta(seconds=1)}, ERROR, True),
    ],
)
def test_a_rule_fits_if_everything_that_it_states_is_so(changed: dict[str, Any], error: JobError, fits: bool) -> None:
    decision = decide([replace(RULE, **changed)], [error], WORK, NOW)
    assert (decision is not None) is fits


def test_the_reason_names_the_rule_the_error_and_what_the_rule_asks_for() -> None:
    rule = replace(RULE, rule_id=12, action="limit_retry", parameters={"maxAttempt": 2}, pattern="out of", release=None)
    decision = decide([rule], [ERROR], WORK, NOW)
    assert decision is not None
    assert decision.reason == (
        "rule 12, limit_retry maxAttempt=2, for pilot error 1099: out of memory at node"
        " (it asks for code 1099, text 'out of')"
    )


def test_the_most_specific_rule_decides_then_the_smallest_most_attempts_then_the_lowest_number() -> None:
    general = RetryRule(1, "pilot", 1099, "limit_retry", parameters={"maxAttempt": 5})
    with_text = RetryRule(2, "pilot", 1099, "no_retry", pattern=".*memory")
    fewer = RetryRule(3, "pilot", 1099, "limit_retry", parameters={"maxAttempt": 2})
    same = replace(fewer, rule_id=4)
    found = [decide(rules, [ERROR], WORK, NOW) for rules in ([general, with_text], [general, same, fewer])]
    assert [one.rule.rule_id for one in found if one is not None] == [2, 3]


def test_the_first_error_with_a_rule_decides_and_a_job_gets_one_action() -> None:
    rules = [RetryRule(1, "payload", 65, "increase_cputime"), RetryRule(2, "pilot", 1201, "reduce_input_per_job")]
    report = JobReport("failed", pilot_error_code=1201, exe_error_code=65, exe_error_diag="x")
    decision = decide(rules, errors_of(report, "payload", 65, "x"), WORK, NOW)
    assert decision is not None
    assert (decision.rule.rule_id, decision.action) == (2, "reduce_input_per_job")


def test_a_rule_that_is_not_active_is_told_and_does_nothing() -> None:
    quiet = replace(RULE, is_active=False, pattern="out")
    decision = decide([quiet], [ERROR], WORK, NOW)
    assert decision is not None
    assert decision.action is None
    assert "told only" in decision.reason
    loud = decide([quiet, replace(RULE, rule_id=2)], [ERROR], WORK, NOW)
    assert loud is not None
    assert loud.action == "no_retry"


def test_jobs_that_the_system_ended_have_an_error_of_the_system() -> None:
    assert errors_of(None, "watchdog", 102, "no heartbeat") == [JobError("system", 102, "no heartbeat")]
    assert errors_of(None, "payload", 65, "x") == [JobError("payload", 65, "x")]
    report = JobReport("failed", pilot_error_code=1305, trans_exit_code=3, pilot_error_diag="payload failed")
    found = errors_of(report, "payload", 3, "exit 3")
    assert [(one.source, one.code) for one in found] == [("pilot", 1305), ("transformation", 3)]


def _actions_of_the_field(case: dict[str, Any]) -> list[Any] | None:
    """The decision on a sampled case in the field's words."""
    source_of = {"pilotErrorCode": "pilot", "exeErrorCode": "payload"}
    rules = [
        RetryRule(
            one["error_id"], source_of[source], int(code), one["action"], one["error_diag"],  # type: ignore[arg-type]
            {key: value for key, value in one["params"].items() if key == "maxAttempt"},
            one["architecture"], one["release"], one["wqid"], None, one["active"],
        )
        for source, by_code in case["rules"].items() for code, listed in by_code.items() for one in listed
        # such an expression is refused when it is loaded; there it matches nothing
        if one["error_diag"] != "(bad"
    ]  # fmt: skip
    errors = [
        JobError(source_of[one["source"]], int(one["error_code"]), one["error_diag"])  # type: ignore[arg-type]
        for one in case["errors"] if str(one["error_code"]).isdigit()
    ]  # fmt: skip
    job = FailedWork(case["job"]["cmt_config"], case["job"]["release"], case["job"]["wqid"])
    decision = decide(rules, errors, job, NOW)
    return None if decision is None or decision.action is None else [decision.action, decision.rule.max_attempt]


def _actions_there(out: dict[str, Any], attempt: int) -> list[Any] | None:
    """What the field did: no_retry is a limit at the present attempt there, more CPU time two steps."""
    if not out["actions"]:
        return None
    name, *values = out["actions"][0]
    return {"initialize_cpu_time": ["increase_cputime", None], "limit_retry": ["limit_retry", *values]}.get(
        name, [name, None]
    )


def test_the_rule_that_decides_is_the_fields_on_its_samples() -> None:
    for case in sample("retryrules")["cases"]:
        here = _actions_of_the_field(case["in"])
        there = _actions_there(case["out"], case["in"]["attempt"])
        if here is not None and here[0] == "no_retry":
            here = ["limit_retry", case["in"]["attempt"]]
        assert here == there, case


def test_steps_of_memory_of_a_task_are_the_fields_on_its_samples() -> None:
    for case in sample("ramretry")["cases"]:
        given_ram, stated = case["in"]["current_ram"], case["in"]["split_rule"] or ""
        rules = {key: int(value) for key, value in (one.split("=") for one in stated.split(",") if one)}
        own = RetryMemory(rules.get("RX"), rules.get("RY") or None, rules.get("RZ"))
        # there the answer without an offset, or without a request, is "as before"
        expected = given_ram if case["out"] is None else case["out"]
        assert own.at_least(given_ram or 0) == (expected or 0), case


@pytest.mark.parametrize(
    ("own", "used_mb", "current", "expected"),
    [
        (RetryMemory(), 2600, 2000, 3000),
        (RetryMemory(2500, 500), 2600, 2000, 3000),
        (RetryMemory(2500, 500), 2000, 2000, 2500),
        (RetryMemory(2500, 500), 2500, 2500, 3000),
        (RetryMemory(2500, 500, 2800), 2600, 2000, 2800),
        (RetryMemory(1500), 2600, 2000, 3000),  # no step: the usual ones
        (RetryMemory(2500), 2100, 2000, 2500),
        (RetryMemory(3000, None, 2500), 2100, 2000, 2500),  # the offset is no more than the maximum
        (RetryMemory(3000, 500, 2500), 2100, 2000, 2500),
        (RetryMemory(2500, 500, 1500), 2600, 2000, 2000),  # never below what was asked for
    ],
)
def test_more_memory_is_the_next_step_above_what_was_used(
    own: RetryMemory, used_mb: int, current: int, expected: int
) -> None:
    report = JobReport("failed", max_pss_kb=used_mb * 1024, core_count=1)
    assert next_ram_mb(WorkNeeds(ram_mb=1000), report, current, own) == expected


@pytest.mark.parametrize(
    ("own", "current", "expected"),
    [
        (RetryMemory(step_mb=3000), 2000, 3000),
        (RetryMemory(step_mb=3000), 3000, 4500),
        (RetryMemory(step_mb=3000, max_mb=4000), 3000, 4000),
        (RetryMemory(), 2000, 3000),
    ],
)
def test_memory_times_a_factor_is_the_step_over_the_tasks_memory(own: RetryMemory, current: int, expected: int) -> None:
    assert times_ram_mb(WorkNeeds(ram_mb=2000), None, current, own) == expected


@pytest.mark.parametrize(
    ("n_files", "raised", "expected"),
    [(45, {2000: 4, 4000: 10}, 4000), (45, {2000: 3, 4000: 10}, None), (10, {2000: 3}, None), (10, {500: 9}, None),
     (0, {}, None)],
)  # fmt: skip
def test_the_whole_task_gets_more_memory_once_more_than_30_percent_of_its_input_ran_out_of_it(
    n_files: int, raised: dict[int, int], expected: int | None
) -> None:
    assert ram_of_whole_task(1000, n_files, raised) == expected


@pytest.mark.parametrize(
    ("needs", "current", "job", "expected"),
    [
        (WorkNeeds(ram_mb=1000), None, JobMemory(900, 1), 1000),
        (WorkNeeds(ram_mb=3000), None, JobMemory(900, 1), 1000),
        (WorkNeeds(ram_mb=3000), 4000, JobMemory(3600, 1), 4000),
        (WorkNeeds(ram_mb=1950), None, JobMemory(1800, 1), 1950),  # it was rounded up by 45 MB
        (WorkNeeds(ram_mb=3000, base_ram_mb=500, ram_per_core=True), None, JobMemory(14850, 8), 2000),
        (WorkNeeds(ram_mb=3000), 2000, None, 3000),
    ],
)
def test_what_a_failed_job_asked_for_is_its_own_request_in_the_unit_of_the_task(
    needs: WorkNeeds, current: int | None, job: JobMemory | None, expected: int
) -> None:
    assert asked_ram_mb(needs, current, job) == expected


def test_the_thirty_percent_are_the_fields_on_its_samples() -> None:
    """There too the share of files decides; the value is the largest that a file asks for.

    There it is rounded up to a usual step and takes the failed job's own request into account; both are in the file's
    request here, which is written before. Requests above the last step raise nothing there: they do not come about.
    """
    for case in sample("meminc")["cases"]:
        task, [(none, ordinary), *raised] = case["in"]["task"], case["in"]["input_ram_stats"]
        if case["in"]["kind"] != "job" or not raised or "Fixed" in task["ram_unit"] or none != 0:
            continue
        counts = dict(raised)
        wanted = ram_of_whole_task(task["ram_count"], ordinary + sum(counts.values()), counts)
        there = [value for what, _, value in case["out"]["updates"] if what == "task"]
        if there:
            assert wanted is not None, case
            assert wanted <= there[0], case
        elif max(counts) <= RAM_STEPS_MB[-1]:
            assert wanted is None, case


def ended(attempt: int, most: int | None) -> Any:
    return of_input(Ended("failed", "payload"), Attempts(attempt, most))


def decided(action: Any, **parameters: int) -> RetryDecision:
    return RetryDecision(replace(RULE, action=action, parameters=parameters), ERROR, "")


def test_no_retry_gives_an_input_up_and_limit_retry_leaves_so_many_attempts() -> None:
    assert limited(ended(0, 3), decided("no_retry")).status == "failed"
    assert limited(ended(0, None), decided("no_retry")).attempts.max_attempt == 1
    assert limited(ended(0, 3), decided("limit_retry", maxAttempt=2)).status == "ready"
    assert limited(ended(1, 3), decided("limit_retry", maxAttempt=2)).status == "failed"
    assert limited(ended(0, 3), decided("limit_retry", maxAttempt=9)).attempts.max_attempt == 3


@given(
    st.integers(0, 9), st.none() | st.integers(1, 10), st.integers(1, 12), st.sampled_from(["no_retry", "limit_retry"])
)
def test_a_rule_never_gives_more_attempts_and_attempts_never_exceed_their_limit(
    attempt: int, most: int | None, limit: int, action: str
) -> None:
    if most is not None and attempt >= most:
        return
    before = ended(attempt, most)
    after = limited(before, decided(action, maxAttempt=limit))
    assert after.attempts.max_attempt is not None
    assert after.attempts.attempt_nr <= after.attempts.max_attempt
    assert before.attempts.max_attempt is None or after.attempts.max_attempt <= before.attempts.max_attempt
    assert (after.status == "ready") is (after.attempts.attempt_nr < after.attempts.max_attempt)


def test_an_input_is_broken_if_the_error_names_it_or_it_was_the_only_one() -> None:
    error = JobError("pilot", 1145, "checksum of AOD._00001.root is wrong")
    decision = RetryDecision(replace(RULE, action="broken_input", parameters={"fromAttempt": 2}), error, "")
    assert is_broken(decision, "AOD._00001.root", 2, n_inputs=3)
    assert not is_broken(decision, "AOD._00002.root", 2, n_inputs=3)
    assert is_broken(decision, "AOD._00002.root", 2, n_inputs=1)
    assert not is_broken(decision, "AOD._00001.root", 1, n_inputs=3), "one site's copy may be bad"


def test_the_cpu_time_of_a_job_that_ran_out_of_time_is_that_limit_for_each_event_and_half_of_it_more() -> None:
    assert cpu_time_from(SlowQueue(20_000, 10.0, 1, 1000)) == 300
    assert cpu_time_from(SlowQueue(20_000, 10.0, 8, 1000)) == 2400
    assert cpu_time_from(SlowQueue(0, 10.0, 1, 1000)) is None


@pytest.mark.parametrize(
    ("rule", "attempt", "expected"),
    [
        ({"nGBPerJob": 10}, 1, None),
        ({"nGBPerJob": 10}, 2, {"nGBPerJob": 5, "nMaxFilesPerJob": 100}),
        ({"nGBPerJob": 10}, 4, {"nGBPerJob": 2, "nMaxFilesPerJob": 50}),
        ({"nGBPerJob": 10}, 7, {"nGBPerJob": 1, "nMaxFilesPerJob": 1}),
        ({}, 3, {"nMaxFilesPerJob": 100}),
        ({"nFilesPerJob": 4}, 3, None),
        ({"nEventsPerJob": 4}, 3, None),
    ],
)
def test_input_is_halved_quartered_then_one_by_the_attempts_made(
    rule: dict[str, Any], attempt: int, expected: dict[str, int] | None
) -> None:
    found = reduced_rules(rule, rules_of(rule), attempt)
    sizes = None if found is None else {key: value for key, value in found.items() if key != name_of("before_reduced")}
    assert sizes == expected


def test_a_half_is_never_halved_again() -> None:
    first = reduced_rules({"nGBPerJob": 10}, rules_of({"nGBPerJob": 10}), 2)
    assert first is not None
    assert reduced_rules(first, rules_of(first), 3) is None
    second = reduced_rules(first, rules_of(first), 4)
    assert second is not None
    assert (second["nGBPerJob"], second[name_of("before_reduced")]["nGBPerJob"]) == (2, 10)


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"pattern": "(bad"}, "pattern"),
        ({"pattern": "(?=x)"}, "pattern"),
        ({"action": "limit_retry"}, "parameters.maxAttempt"),
        ({"parameters": {"maxAttempt": 3}}, "parameters.maxAttempt"),
        ({"action": "limit_retry", "parameters": {"maxAttempt": 0}}, "parameters.maxAttempt"),
        ({"action": "limit_retry", "parameters": {"maxAttempt": 3, "steps": 1}}, "parameters.steps"),
    ],
)
def test_a_rule_that_cannot_be_used_is_refused_by_its_field(changed: dict[str, Any], field: str) -> None:
    assert [one.field for one in problems_of([replace(RULE, **changed)])] == [f"retry_rules.1.{field}"]


def test_a_number_belongs_to_one_rule() -> None:
    [problem] = problems_of([RULE, replace(RULE, code=5)])
    assert problem.field == "retry_rules.1.rule_id"
