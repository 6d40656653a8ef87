"""What an ended job means for the files it had (JEDI: attempts; Transition of file status).

* finished: input and outputs are finished.
* failed, closed, cancelled: each input goes back to ready with one more attempt, or fails when none is left. Only a
  failure of the payload counts as a failed attempt. An attempt that ended through our own fault (taken back before it
  ran, lost by the dispatcher or the brokerage) gives the file one attempt more in exchange, up to a bound, so that it
  never costs the user one. One whose pilot was lost is an attempt: its payload may have done its work, and what may be
  tried once (maxAttempt 1) is not tried again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from shared.config.parameter import Parameter
from shared.states.file import FileStatus
from shared.states.job import JobStatus

INFRASTRUCTURE = frozenset({"dispatch", "brokerage", "generation"})
PAYLOAD = "payload"
FORGIVEN_ATTEMPTS = Parameter(
    "jobgen", "MAX_FORGIVEN_ATTEMPTS", 50.0, "attempts", "ended by the system, that do not count"
)


@dataclass(frozen=True, slots=True)
class Ended:
    """A job at its end; `is_last`: none follows it, whatever attempts are left."""

    status: JobStatus
    error_source: str | None = None
    is_last: bool = False

    @property
    def succeeded(self) -> bool:
        """Whether its input is done."""
        return self.status == "finished"

    @property
    def is_payload_failure(self) -> bool:
        """Whether the payload itself failed, which counts against the file and the scouts."""
        return self.status == "failed" and self.error_source == PAYLOAD

    @property
    def is_forgiven(self) -> bool:
        """Ended through no fault of the user, the payload or the site's work."""
        return self.status == "closed" or self.error_source in INFRASTRUCTURE


class Attempts(NamedTuple):
    """Counters of one file."""

    attempt_nr: int
    max_attempt: int | None
    failed_attempt: int = 0
    max_failure: int | None = None


class FileOutcome(NamedTuple):
    """The file's next state and counters."""

    status: FileStatus
    attempts: Attempts


def of_input(job: Ended, file: Attempts, *, max_forgiven: float = FORGIVEN_ATTEMPTS.default) -> FileOutcome:
    """The outcome for one input of the job; attempt <= max attempt always holds."""
    if job.succeeded:
        return FileOutcome("finished", file)
    attempt = file.attempt_nr + 1
    failed = file.failed_attempt + (1 if job.is_payload_failure else 0)
    max_attempt = file.max_attempt
    if max_attempt is not None:
        forgiven_so_far = file.attempt_nr - file.failed_attempt
        if job.is_forgiven and forgiven_so_far < max_forgiven:
            max_attempt += 1
        attempt = min(attempt, max_attempt)
    after = Attempts(attempt, max_attempt, failed, file.max_failure)
    return FileOutcome("ready" if attempts_left(after) and not job.is_last else "failed", after)


def attempts_left(file: Attempts) -> bool:
    """attemptNr < maxAttempt and (no maxFailure or failedAttempt < maxFailure).

    Example: with maxAttempt 3 the first two failures leave an attempt, the third leaves none: at most 3 attempts.
    """
    if file.max_attempt is not None and file.attempt_nr >= file.max_attempt:
        return False
    return file.max_failure is None or file.failed_attempt < file.max_failure


def of_output(job: Ended, *, is_registered: bool, is_log: bool = False) -> FileStatus:
    """The next state of an output that was to be produced.

    What the catalogue has of a job that succeeded is finished, and so is the log of one that failed; what a job may
    leave out (allowNoOutput) and did is nooutput.
    """
    if job.succeeded:
        return "finished" if is_registered else "nooutput"
    if job.status == "failed":
        return "finished" if is_log and is_registered else "failed"
    return "cancelled"


def of_seed(job: Ended) -> FileStatus:
    """A random seed whose job did not succeed is used by the next job, whichever that is."""
    return "finished" if job.succeeded else "ready"
