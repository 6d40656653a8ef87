"""What the action of a rule means for the files of a failed job, and for its task."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from services.job_generation.policy.memory import JobMemory, RetryMemory, asked_ram_mb, next_ram_mb, times_ram_mb
from services.job_generation.policy.outcomes import FileOutcome, attempts_left
from services.job_generation.retry.types import FROM_ATTEMPT, RetryDecision
from shared.model.job_report import JobReport
from shared.task.in_effect import SplitRules
from shared.task.needs import WorkNeeds
from shared.task.rules import MAX_FILES_PER_JOB
from shared.task.stored import name_of, with_rules

N_GB, N_MAX_FILES = name_of("n_gb_per_job"), name_of("n_max_files_per_job")
CPU_TIME_MARGIN = 1.5


def limited(outcome: FileOutcome, decision: RetryDecision) -> FileOutcome:
    """The outcome of an input under no_retry and limit_retry: never more attempts than before.

    Example: after the first of three attempts no_retry gives the file up; limit_retry with 2 leaves one more.
    """
    if outcome.status not in ("ready", "failed") or decision.action not in ("no_retry", "limit_retry"):
        return outcome
    made = outcome.attempts.attempt_nr
    most = made if decision.action == "no_retry" else max(made, decision.rule.max_attempt or made)
    if outcome.attempts.max_attempt is not None:
        most = min(most, outcome.attempts.max_attempt)
    after = outcome.attempts._replace(max_attempt=most)
    return FileOutcome("ready" if attempts_left(after) else "failed", after)


def raised_ram_mb(
    decision: RetryDecision,
    needs: WorkNeeds,
    rules: SplitRules,
    report: JobReport | None,
    current_mb: int | None,
    job: JobMemory | None = None,
) -> int | None:
    """The memory of the next attempt; the present one where the action is another.

    `job`: what the failed one had.
    """
    asked_mb = asked_ram_mb(needs, current_mb, job)
    if decision.action == "increase_memory":
        return next_ram_mb(needs, report, current_mb, RetryMemory.of(rules), asked_mb)
    if decision.action == "increase_memory_xtimes":
        return times_ram_mb(needs, report, current_mb, RetryMemory.of(rules), asked_mb)
    return current_mb


def is_broken(decision: RetryDecision, lfn: str, attempt: int, *, n_inputs: int) -> bool:
    """Whether this input is what the job found corrupted: it is named by the error, or was the only one.

    `attempt`: the one that found it so. With fromAttempt an earlier one is not believed, because the copy at one site
    may be bad where the file is good.
    """
    if decision.action != "broken_input" or attempt < decision.rule.parameters.get(FROM_ATTEMPT, 1):
        return False
    return n_inputs == 1 or lfn in decision.error.text


@dataclass(frozen=True)
class SlowQueue:
    """Where a job ran out of time."""

    max_time_s: int
    core_power_hs06: float
    core_count: int
    n_events: int | None


def cpu_time_from(job: SlowQueue) -> int | None:
    """maxtime x core power x cores / events x 1.5, in HS06 s for each event, rounded up.

    None where no limit is known.

    Example: a job of 1000 events on one core of 10 HS06 that ran into a limit of 20 000 s: the task gets 300 HS06 s.
    Source: PanDA, job retry module; that all cores of the job count is the choice taken here, as they do in the
    expected walltime.
    """
    if job.max_time_s <= 0 or job.core_power_hs06 <= 0:
        return None
    total = job.max_time_s * job.core_power_hs06 * max(1, job.core_count)
    return max(1, math.ceil(total / max(1, job.n_events or 1) * CPU_TIME_MARGIN))


def reduced_rules(split_rule: Mapping[str, Any], rules: SplitRules, attempt: int) -> dict[str, Any] | None:
    """The task's rules with less input for each job, after so many attempts; None where nothing changes.

    Before the second attempt nothing changes; before the fourth nGBPerJob and nMaxFilesPerJob are half of what the
    task stated, before the seventh a quarter, then 1. Rules that fix a job's size (nFilesPerJob, nEventsPerJob) stay as
    they are. What was stated is kept, so that a half is never halved again.

    Example: nGBPerJob 10 is 5 after two failed attempts, 2 after four, 1 after seven. Source: PanDA, job retry module.
    """
    if attempt < 2 or rules.n_files_per_job is not None or rules.n_events_per_job is not None:
        return None
    before: Mapping[str, Any] = rules.before_reduced or {
        N_GB: rules.n_gb_per_job, N_MAX_FILES: rules.n_max_files_per_job or MAX_FILES_PER_JOB,
    }  # fmt: skip
    divisor = 2 if attempt < 4 else 4 if attempt < 7 else None
    changed: dict[str, Any] = {}
    for name, attribute in ((N_GB, "n_gb_per_job"), (N_MAX_FILES, "n_max_files_per_job")):
        stated, present = before.get(name), getattr(rules, attribute)
        if stated is None:
            continue
        wanted = 1 if divisor is None else max(1, int(stated / divisor))
        if present is None or wanted < present:
            changed[attribute] = wanted
    return with_rules(split_rule, before_reduced=dict(before), **changed) if changed else None
