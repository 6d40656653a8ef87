"""What the end of a job means for its job set, and the job's final state.

Source: JEDI, Final status of Event Service jobs.

After a job its finished ranges are done and the others are released. If ranges with attempts are left the job is tried
again; if others hold the rest it waits for them; if nothing could be done the set fails; else its events are merged.
A range that failed for good, or has no attempt left, fails the set, unless the task takes what was processed
(allowPartialFinish, or a command to finish). A set has at most maxAttemptEsJob jobs in a row. `merges`: what follows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from services.job_generation.policy.outcomes import PAYLOAD, Ended
from shared.states.job import JobStatus

Outcome = Literal["succeeded", "pilot_failed", "lost", "killed", "unused", "too_long"]
Next = Literal["retry", "wait", "merge", "fail", "give_back"]
SubStatus = Literal[
    "es_retry", "es_merge", "es_wait", "es_inaction", "es_noevent", "es_killed", "es_unused", "es_aborted",
    "es_heartbeat", "pilot_failed", "es_merge_failed", "es_discard", "es_toolong",
    "es_badstatus", "es_noqueue", "jc_unlock", "fg_done", "fg_partial", "fg_stumble",
]  # fmt: skip
#: codes of jobs that the watchdog ended: its limit of time, that of a state in which jobs wait for a pilot, the pilot
#: said nothing any more
EXPIRED, REASSIGNED, WORKER_GONE = 102, 105, 300
#: how the input of a set ends for which no queue is left: the attempt was not the payload's
NO_QUEUE = Ended("failed", "generation")


@dataclass(frozen=True)
class ConsumerEnd:
    """The end of a job that processes events.

    `n_processed` ranges are its own, `attempt` counts the retries so far.
    """

    outcome: Outcome
    n_processed: int
    attempt: int = 1


@dataclass(frozen=True)
class SetState:
    """A job set after the ranges of the ended job were counted.

    `n_live`: its other jobs that can still take ranges.
    """

    n_ready: int = 0
    n_exhausted: int = 0
    n_processing: int = 0
    n_finished: int = 0
    n_done: int = 0
    n_fatal: int = 0
    n_live: int = 0

    @property
    def n_lost(self) -> int:
        """Ranges that nobody can process any more."""
        return self.n_exhausted + self.n_fatal

    @property
    def n_held(self) -> int:
        """Ranges of jobs that have not ended."""
        return self.n_processing + self.n_finished


@dataclass(frozen=True)
class EndOfConsumer:
    """The job's state and sub-status, what becomes of its set, and why."""

    status: JobStatus
    sub_status: SubStatus | None
    next: Next
    reason: str


def outcome_of(
    status: JobStatus, error_source: str | None, error_code: int | None, *, had_pilot: bool = False
) -> Outcome:
    """How a job ended, by its row.

    Taken back before it ran (closed) is no attempt; a kill by a person is one, and so is one that took too long.
    """
    if status == "merging":
        return "lost" if error_source == "watchdog" else "succeeded"
    if status == "closed":
        expired = error_source == "watchdog" and error_code == EXPIRED
        return "too_long" if expired and had_pilot else "unused"
    if status == "cancelled":
        return "killed"
    return "lost" if error_source == "watchdog" and error_code == WORKER_GONE else "pilot_failed"


def judge(
    end: ConsumerEnd, state: SetState, *, most_attempts: int, accepts_partial: bool = False, loses_some: bool = False
) -> EndOfConsumer:
    """The verdict on one job.

    `most_attempts`: jobs in a row that a set may use up (maxAttemptEsJob). `accepts_partial`: what was processed is
    merged although some ranges were not, because the task is to finish. `loses_some`: what failed for good is left
    out of the merge (allowPartialFinish), and the rest is tried as ever.

    Example: a job that processed 3 of 5 ranges with attempts left goes to merging as es_retry, and another job is made.
    """
    if state.n_lost and not (accepts_partial or loses_some):
        failed = f"{state.n_exhausted} ranges have no attempt left, {state.n_fatal} failed for good"
        status, sub_status = _ended(end, "fail")
        return EndOfConsumer(status, sub_status, "fail", failed)
    then, reason = _next(end, state, most_attempts, accepts_partial=accepts_partial)
    status, sub_status = _ended(end, then)
    return EndOfConsumer(status, sub_status, then, reason)


def _next(end: ConsumerEnd, state: SetState, most_attempts: int, *, accepts_partial: bool) -> tuple[Next, str]:
    if state.n_ready:
        return _for_the_rest(end, state, most_attempts, accepts_partial=accepts_partial)
    if state.n_held:
        return "wait", f"other jobs have {state.n_held} ranges"
    if not state.n_done:
        return "fail", "no range was processed"
    return "merge", f"{state.n_done} ranges were processed, and none is left"


def _for_the_rest(end: ConsumerEnd, state: SetState, most_attempts: int, *, accepts_partial: bool) -> tuple[Next, str]:
    """Ranges with attempts are left."""
    left = f"{state.n_ready} ranges are left"
    if end.outcome == "unused":
        if state.n_live:
            return "wait", f"{left}; {state.n_live} other jobs take them"
        if not state.n_done and not state.n_held:
            return "give_back", f"{left}, none was processed: another queue is chosen"
    if accepts_partial and state.n_done and not state.n_live:
        if state.n_held:
            return "wait", f"other jobs have {state.n_held} ranges"
        return "merge", f"{left}, and the task is to finish"
    if end.outcome == "unused":
        return "retry", f"{left}; the job was taken back before it ran"
    if end.attempt < most_attempts:
        return "retry", f"{left}; attempt {end.attempt} of {most_attempts}"
    if state.n_live:
        return "wait", f"{left}; {state.n_live} other jobs take them"
    return "fail", f"{left} after {most_attempts} jobs"


def waits_alone(end: ConsumerEnd, verdict: EndOfConsumer, most_attempts: int) -> EndOfConsumer:
    """The verdict on the last job of a set whose other ranges a job beside it has.

    Somebody must be there for the merge: a job that ended well waits for it in merging; after any other end there is a
    next one while attempts are left.

    Example: a job got no range because one beside its set has all: it goes to merging as es_wait.
    """
    if verdict.status == "merging":
        return verdict
    if end.outcome == "succeeded":
        return replace(verdict, status="merging", sub_status="es_wait")
    if end.outcome == "unused" or end.attempt < most_attempts:
        return replace(verdict, next="retry", reason=f"{verdict.reason}; no other job of its set is left")
    return replace(verdict, next="fail", reason=f"{verdict.reason}; none is left to wait after {most_attempts} jobs")


def given_up(verdict: EndOfConsumer, reason: str) -> EndOfConsumer:
    """The verdict where no job of the set may follow: it fails, and a job that would wait in merging too.

    Example: a job processed 3 of 5 ranges, and its task was killed meanwhile: it is failed, not merging as es_retry.
    """
    if verdict.status == "merging":
        verdict = replace(verdict, status="failed", sub_status=None)
    return replace(verdict, next="fail", reason=reason)


#: fine-grained processing: all events of the job, some and none were processed
_FINE_GRAINED: Mapping[SubStatus, SubStatus] = {
    "es_merge": "fg_done", "es_retry": "fg_partial", "es_inaction": "fg_stumble",
}  # fmt: skip


def fine_grained(verdict: EndOfConsumer) -> EndOfConsumer:
    """The verdict on a job of a task with fineGrainedProc, in its sub-statuses.

    Such a job is the only one of its set, and its pilot reports ranges that it was not given (version 2 of the
    report). The field names its sub-statuses and no other difference: ranges left are processed by another job, and
    what was processed is merged, as for any job of the event service.

    Example: a job that processed 3 of 5 ranges is fg_partial, in merging until the set is merged.
    """
    if verdict.sub_status is None or verdict.sub_status not in _FINE_GRAINED:
        return verdict
    return replace(verdict, sub_status=_FINE_GRAINED[verdict.sub_status])


_OF_SUCCESS: Mapping[tuple[Next, bool], tuple[JobStatus, SubStatus | None]] = {
    ("retry", True): ("merging", "es_retry"),
    ("retry", False): ("merging", "es_inaction"),
    ("wait", True): ("merging", "es_wait"),
    ("wait", False): ("closed", "es_noevent"),
    ("merge", True): ("merging", "es_merge"),
    ("merge", False): ("closed", "es_noevent"),
    ("fail", True): ("failed", None),
    ("fail", False): ("failed", None),
}


def _ended(end: ConsumerEnd, then: Next) -> tuple[JobStatus, SubStatus | None]:
    if end.outcome == "unused":
        return "closed", "es_unused"
    if end.outcome == "too_long":
        return "closed", "es_toolong"
    if end.outcome == "killed":
        return "cancelled", None
    if end.outcome == "pilot_failed":
        return "failed", "pilot_failed"
    if end.outcome == "lost" and not end.n_processed:
        return "failed", "es_heartbeat"
    return _OF_SUCCESS[then, end.n_processed > 0]


def end_of_input(job: Ended, verdict: EndOfConsumer) -> Ended:
    """How the input of a set ends that was given up with this job.

    As an attempt of the payload; forgiven where none was made, or where no queue was left.

    Example: the job of the last attempt failed because ranges are left: the payload's attempt; no ES queue: not its.
    """
    if verdict.next == "give_back":
        return Ended("closed")
    if verdict.sub_status == "es_noqueue":
        return NO_QUEUE
    is_ours = job.status == "failed" and job.error_source == NO_QUEUE.error_source
    return Ended(job.status, PAYLOAD if is_ours else job.error_source)
