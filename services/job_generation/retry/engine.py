"""Which rule decides for a failed job."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from services.job_generation.retry.matcher import conditions_that_hold
from services.job_generation.retry.types import SOURCES, FailedWork, JobError, RetryDecision, RetryRule
from shared.model.job_report import JobReport

#: jobs that Orrery ended itself
OWN_SOURCES = frozenset({"watchdog", "dispatch", "brokerage", "generation", "catalogue"})
TOLD = 200


def errors_of(report: JobReport | None, source: str | None, code: int | None, text: str | None) -> list[JobError]:
    """The errors of a job in the order of their sources: what its pilot reported, and why Orrery ended it.

    `source`, `code`, `text` are the job's own: all that is known of one whose pilot did not say what went wrong.
    """
    found: list[JobError] = []
    if report is not None:
        if report.pilot_error_code:
            found.append(JobError("pilot", report.pilot_error_code, report.pilot_error_diag))
        if report.exe_error_code:
            found.append(JobError("payload", report.exe_error_code, report.exe_error_diag))
        if report.trans_exit_code:
            found.append(JobError("transformation", report.trans_exit_code, report.exe_error_diag))
    known = "system" if source in OWN_SOURCES else source
    if known in SOURCES and (not found or known == "system"):
        found.append(JobError(known, code or 0, text or ""))
    return found


def decide(
    rules: Sequence[RetryRule], errors: Sequence[JobError], job: FailedWork, now: datetime
) -> RetryDecision | None:
    """The most specific rule of the first error that has one; None where no rule fits.

    Among equally specific ones that with the smallest maxAttempt, then the one of the lowest number. An active rule
    goes before any that is only told. One action for each job.

    Example: of "code 1099: at most 5 attempts" and "code 1099, text '.*memory.*': no retry" the second decides about
    "out of memory", because it states more. Source: PanDA, job retry module.
    """
    for error in errors:
        fitting = [(rule, held) for rule in rules if (held := conditions_that_hold(rule, error, job, now)) is not None]
        if not fitting:
            continue
        rule, held = min(fitting, key=lambda one: _order(one[0]))
        return RetryDecision(rule, error, _reason(rule, error, held))
    return None


def _order(rule: RetryRule) -> tuple[bool, int, float, int]:
    most = rule.max_attempt
    return (not rule.is_active, -rule.specificity, float("inf") if most is None else most, rule.rule_id)


def _reason(rule: RetryRule, error: JobError, held: Sequence[str]) -> str:
    parameters = "".join(f" {name}={value}" for name, value in sorted(rule.parameters.items()))
    does = f"{rule.action}{parameters}" if rule.is_active else f"{rule.action}{parameters} (told only: not active)"
    fits = f" (it asks for {', '.join(held)})" if held else ""
    text = f": {error.text[:TOLD]}" if error.text else ""
    return f"rule {rule.rule_id}, {does}, for {error.source} error {error.code}{text}{fits}"
