"""Rules about errors, errors of jobs, and what was decided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, get_args

#: who says what went wrong: the pilot, the payload's own code, the code that its script ended with, or Orrery
ErrorSource = Literal["pilot", "payload", "transformation", "system"]
Action = Literal[
    "no_retry",
    "limit_retry",
    "increase_memory",
    "increase_memory_xtimes",
    "increase_cputime",
    "reduce_input_per_job",
    "other_site",
    "broken_input",
]
#: in the order in which the errors of a job are looked at
SOURCES: tuple[ErrorSource, ...] = get_args(ErrorSource)
ACTIONS: tuple[Action, ...] = get_args(Action)
#: the most attempts of a file (limit_retry), or the attempt from which a file is believed to be broken (broken_input)
MAX_ATTEMPT, FROM_ATTEMPT = "maxAttempt", "fromAttempt"
PARAMETERS: Mapping[Action, str] = {"limit_retry": MAX_ATTEMPT, "broken_input": FROM_ATTEMPT}


@dataclass(frozen=True)
class RetryRule:
    """What to do about an error. None stands for any code, text, architecture, release or work queue.

    `pattern` matches the error's text from its first letter. `is_active` false: it is told, and changes nothing.
    """

    rule_id: int
    source: ErrorSource
    code: int | None
    action: Action
    pattern: str | None = None
    parameters: Mapping[str, int] = field(default_factory=dict)
    architecture: str | None = None
    release: str | None = None
    work_queue_id: int | None = None
    expires_at: datetime | None = None
    is_active: bool = True
    note: str = ""

    @property
    def specificity(self) -> int:
        """How many conditions it states."""
        stated = (self.code, self.pattern, self.architecture, self.release, self.work_queue_id)
        return sum(one is not None for one in stated)

    @property
    def max_attempt(self) -> int | None:
        """The most attempts that it allows."""
        return self.parameters.get(MAX_ATTEMPT)


@dataclass(frozen=True)
class JobError:
    """One of the errors that a job failed with."""

    source: ErrorSource
    code: int
    text: str = ""


@dataclass(frozen=True)
class FailedWork:
    """What conditions are asked of."""

    architecture: str | None = None
    release: str | None = None
    work_queue_id: int | None = None


@dataclass(frozen=True)
class RetryDecision:
    """The rule that decides for a job, the error that it is about, and why in one sentence."""

    rule: RetryRule
    error: JobError
    reason: str

    @property
    def action(self) -> Action | None:
        """What is done; nothing by a rule that is only told."""
        return self.rule.action if self.rule.is_active else None
