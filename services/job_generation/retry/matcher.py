"""Whether a rule fits an error of a job."""

from __future__ import annotations

from datetime import datetime

from services.job_generation.retry.types import FailedWork, JobError, RetryRule
from shared.model.expression import parse_expression

#: of a longer text only the beginning is looked at
LONGEST_TEXT = 2000


def conditions_that_hold(rule: RetryRule, error: JobError, job: FailedWork, now: datetime) -> list[str] | None:
    """What the rule asks for and is so; None where something is not, or the rule has expired."""
    if rule.source != error.source or rule.code not in (None, error.code):
        return None
    if rule.expires_at is not None and rule.expires_at <= now:
        return None
    if rule.pattern is not None and not parse_expression(rule.pattern).matches_start_of(error.text[:LONGEST_TEXT]):
        return None
    asked = (
        ("architecture", rule.architecture, job.architecture),
        ("release", rule.release, job.release),
        ("work queue", rule.work_queue_id, job.work_queue_id),
    )
    if any(wanted is not None and wanted != found for _, wanted, found in asked):
        return None
    texts = [f"code {error.code}"] if rule.code is not None else []
    if rule.pattern is not None:
        texts.append(f"text {rule.pattern!r}")
    return texts + [f"{name} {wanted}" for name, wanted, _ in asked if wanted is not None]
