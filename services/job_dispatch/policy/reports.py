"""What a pilot's report means for the job it names: what changes, and what the pilot is told.

A report is fenced by the attempt number and the status: a pilot that no longer owns a job changes nothing and is told
to stop; the same final report twice has the effect of one; of two different final reports the first wins.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain
from typing import Any, Literal

from shared.events.jobs import ChangedJob
from shared.model.job_report import OUT_OF_MEMORY_CODES
from shared.model.names import CATALOGUE_NAMES, MAX_FILE_NAME, is_plain_name
from shared.model.outputs_by_expression import MOST_FILES, files_by_expression, told_name
from shared.states.job import ON_NODE, JobStatus

#: what `job_status` may be; holding and transferring count as heartbeats only
ReportedStatus = Literal["starting", "running", "holding", "transferring", "finished", "failed"]
FINAL_REPORTED: tuple[ReportedStatus, ...] = ("finished", "failed")

#: "no command": JSON null would kill the pilot
NO_COMMAND = "NULL"
TO_BE_KILLED = "tobekilled"
ALREADY_DONE = "alreadydone"

#: pilot codes that are the payload's doing: looping, too large a work directory or output, out of memory or walltime,
#: payload failed, and the two that the pilot derives from the payload's exit codes 2 and 3
PAYLOAD_CODES = OUT_OF_MEMORY_CODES | {1104, 1124, 1150, 1213, 1305, 1367, 1368}

#: the pilot ended the payload because somebody told it to: the server, the batch system by a signal, Raythena. What the
#: payload then returned says nothing about it
ENDED_FROM_OUTSIDE = frozenset({1144, 1200, 1201, 1202, 1205, 1206, 1207, 1363})

#: Orrery's own code: the pilot reported success without an output that it should have transferred
MISSING_OUTPUT = 9001
#: and one with an output whose size or checksum cannot be
UNUSABLE_OUTPUT = 9002
#: and the payload wrote files that match the expression of an output and cannot be registered
UNREGISTRABLE_OUTPUT = 9003

#: fields with impossible values, and files, that a dialog names
MOST_TOLD = 3
#: the exit code of a job that was killed by a person or with its task
KILL_CODE = 100


@dataclass(frozen=True)
class Report:
    """One `update_job`.

    `stored` is what `job_reports` keeps of a final one, `progress` what is kept of a running job; `stdout` is the end
    of the payload's output, in debug mode. `lost` names fields with impossible values. `subject`: whose token it came
    with; `is_trusted`: an operator, or production of every VO; `trusted_for`: the VOs ("" of jobs without one) of which
    it has the role production. `vos`: whose jobs it may report, None for every VO;
    `own_only`: one that may report the jobs of its user alone; `claimant_only`: those that it acquired itself.
    """

    job_id: int
    job_status: ReportedStatus
    attempt_number: int | None = None
    stored: dict[str, Any] = field(default_factory=dict)
    lost: tuple[str, ...] = ()
    progress: dict[str, Any] = field(default_factory=dict)
    stdout: str | None = None
    subject: str | None = None
    is_trusted: bool = False
    trusted_for: frozenset[str] = frozenset()
    vos: frozenset[str] | None = None
    own_only: bool = False
    claimant_only: bool = False


@dataclass(frozen=True)
class ReportedJob:
    """What the judgement needs of a live job.

    `claimed_by`: who acquired it, None where unknown; `vo` "": none.
    """

    job_id: int
    task_id: int
    status: JobStatus
    attempt_number: int
    queue: str
    resource_type: str
    gshare: str
    user_name: str
    core_count: int
    command: str | None = None
    claimed_by: str | None = None
    vo: str = ""

    @property
    def as_counted(self) -> ChangedJob:
        """What statistics tell apart, with the state that it has before it changes."""
        return (self.task_id, self.queue, self.resource_type, self.gshare, self.user_name, self.status, self.core_count)


class Effect(StrEnum):
    """What a report changes."""

    NOTHING = "nothing"
    HEARTBEAT = "heartbeat"
    STARTING = "starting"
    RUNNING = "running"
    HOLDING = "holding"
    FAILED = "failed"
    LATE_LOG = "late log"


#: the state of the job that an effect leads to; the others change no state
STATUS_AFTER: Mapping[Effect, JobStatus] = {
    Effect.STARTING: "starting",
    Effect.RUNNING: "running",
    Effect.HOLDING: "holding",
    Effect.FAILED: "failed",
}


@dataclass(frozen=True)
class Judgement:
    """The effect, and the command in the reply; `refusal` says why the reporter may not report."""

    effect: Effect
    command: str
    refusal: str | None = None


@dataclass(frozen=True)
class ExpectedOutput:
    """A file that a job was made to write, or those of an expression (`regex|EXPR`).

    `may_be_absent`: its dataset has allowNoOutput.
    """

    lfn: str
    is_log: bool = False
    may_be_absent: bool = False


@dataclass(frozen=True)
class EndedJob:
    """A job that ended before its pilot reported: killed, taken back or given up; names of its log."""

    job_id: int
    attempt_number: int
    claimed_by: str | None
    vo: str
    logs: tuple[str, ...]


@dataclass(frozen=True)
class Blame:
    """Whose failure it was: only the payload's counts against the user's attempts."""

    source: str
    code: int
    dialog: str


def may_report(report: Report, row: ReportedJob, named: Callable[[str, str], bool]) -> bool:
    """Whether the reporter may report for the job.

    That is who acquired it, one whom the configuration names for its queue (push mode), or a holder of the role
    production or operator. A job whose claimant is unknown is fenced by its attempt number alone.
    """
    return row.claimed_by is None or is_known_reporter(report, row, named)


def _of_others(report: Report, row: ReportedJob) -> str:
    """Why a job is none of those that the reporter works for; "" where it is."""
    if report.vos is not None and row.vo and row.vo not in report.vos:
        return f"job {row.job_id} is of the VO {row.vo}: {report.subject} may not report for it"
    if report.claimant_only and report.subject != row.claimed_by:
        return f"job {row.job_id} was not acquired by {report.subject}, whose token has expired"
    # a job of its working group, which shares its jobs, is in the hands of who acquired it
    if report.own_only and report.subject not in (row.user_name, row.claimed_by):
        return f"job {row.job_id} is not of {report.subject}, who may report for own jobs only"
    return ""


def is_known_reporter(report: Report, row: ReportedJob, named: Callable[[str, str], bool]) -> bool:
    """The same without what an attempt number would let pass: a job whose claimant is unknown."""
    if report.is_trusted or row.vo in report.trusted_for or report.subject in (None, row.claimed_by):
        return True
    return report.subject is not None and named(row.queue, report.subject)


def judge(
    report: Report,
    row: ReportedJob | None,
    reported_attempts: Collection[int] = (),
    named: Callable[[str, str], bool] = lambda queue, subject: False,
) -> Judgement:
    """The verdict on one report.

    `row` is None where the job is not live; `reported_attempts` are the attempts whose final report is stored;
    `named(queue, subject)` says whom the configuration names.
    """
    if row is not None and (reason := _of_others(report, row)):
        return Judgement(Effect.NOTHING, TO_BE_KILLED, reason)
    if row is not None and not may_report(report, row, named):
        reason = f"job {row.job_id} was acquired by {row.claimed_by}: {report.subject} may not report for it"
        return Judgement(Effect.NOTHING, TO_BE_KILLED, reason)
    known_attempt = row.attempt_number if row is not None else next(iter(reported_attempts), None)
    ours = known_attempt is not None and report.attempt_number in (None, known_attempt)
    if row is None or row.status not in ON_NODE:
        done = ours and known_attempt in reported_attempts
        return Judgement(Effect.NOTHING, ALREADY_DONE if done else TO_BE_KILLED)
    if not ours:
        return Judgement(Effect.NOTHING, TO_BE_KILLED)
    if report.attempt_number is None and not is_known_reporter(report, row, named):
        reason = f"who acquired job {row.job_id} is not known: a report for it needs its attempt number"
        return Judgement(Effect.NOTHING, TO_BE_KILLED, reason)
    return Judgement(_effect(report.job_status, row.status), row.command or NO_COMMAND)


def late_log(report: Report, ended: EndedJob) -> dict[str, Any] | None:
    """Pick what is kept of a final report that came after the job's end: its log, if it wrote one.

    It is believed of who acquired the job alone, for that attempt, and changes no state.
    """
    if report.subject is None or report.subject != ended.claimed_by:
        return None
    if report.attempt_number not in (None, ended.attempt_number):
        return None
    if report.vos is not None and ended.vo and ended.vo not in report.vos:
        return None
    listed = report.stored.get("outputs") or {}
    logs = {lfn: listed[lfn] for lfn in ended.logs if lfn in listed}
    return {"job_status": report.job_status, "outputs": logs} if logs else None


def _effect(reported: ReportedStatus, status: JobStatus) -> Effect:
    if reported == "finished":
        return Effect.HOLDING
    if reported == "failed":
        return Effect.FAILED
    if reported == "running" and status != "running":
        return Effect.RUNNING
    if reported == "starting" and status == "sent":
        return Effect.STARTING
    return Effect.HEARTBEAT


def ending(report: Report, expected: Sequence[ExpectedOutput]) -> tuple[Effect, Blame | None]:
    """What a final report of the job's owner does, and who caused its failure; None where it succeeded.

    Success needs every expected output in the pilot's list, one file or more where it is named by an expression,
    unless its dataset has allowNoOutput; no list is never "all". An output whose size or checksum cannot be is made
    again (PanDA: Adder). A job whose listed files are to be registered goes to holding: all outputs of one that
    succeeded, the log of one that failed.
    """
    listed = report.stored.get("outputs") or {}
    if report.job_status == "failed":
        found: Blame | None = blame(report.stored)
    else:
        found = _wrong_outputs(report.stored, listed, expected)
    has_log = any(one.is_log and one.lfn in listed for one in expected)
    return Effect.HOLDING if found is None or has_log else Effect.FAILED, found


def _wrong_outputs(
    stored: Mapping[str, Any], listed: Mapping[str, Any], expected: Sequence[ExpectedOutput]
) -> Blame | None:
    """What keeps the list of a pilot that reported success from being registered."""
    unusable: Mapping[str, str] = stored.get("unusable_outputs") or {}
    by_expression = files_by_expression([one.lfn for one in expected], [*listed, *(unusable.keys() - listed.keys())])
    written = [*(one.lfn for one in expected), *chain.from_iterable(by_expression.values())]
    if odd := [f"{lfn} ({unusable[lfn]})" for lfn in written if lfn in unusable]:
        return _unusable(odd)
    absent = (one for one in expected if one.lfn not in listed and not by_expression.get(one.lfn))
    if missing := [told_name(one.lfn) for one in absent if not one.may_be_absent]:
        return _missing(missing, stored)
    return _unregistrable(by_expression)


def _unregistrable(by_expression: Mapping[str, Sequence[str]]) -> Blame | None:
    """Who wrote files that match an expression and cannot be registered: the payload."""
    for lfn, files in by_expression.items():
        bad = [one for one in files if not is_plain_name(one) or len(one) > MAX_FILE_NAME]
        if bad:
            allowed = f"names of files: {CATALOGUE_NAMES}, at most {MAX_FILE_NAME} characters"
            told = f"files that match {told_name(lfn)} have names that cannot be: {_named(bad)}; {allowed}"
            return Blame("payload", UNREGISTRABLE_OUTPUT, told)
        if len(files) > MOST_FILES:
            told = f"{len(files)} files of the job match {told_name(lfn)}; allowed: at most {MOST_FILES}"
            return Blame("payload", UNREGISTRABLE_OUTPUT, told)
    return None


def name_taken(lfns: Sequence[str]) -> Blame:
    """Who wrote files for an expression under names that other files have: the payload."""
    told = f"names that other files of the task or its datasets have: {_named(lfns) or 'in their scope'}"
    return Blame("payload", UNREGISTRABLE_OUTPUT, f"{told}; allowed: names that no other job writes")


def _missing(lfns: Sequence[str], stored: Mapping[str, Any]) -> Blame:
    dialog = f"expected output missing in the pilot's list: {_named(lfns)}{_not_understood(stored)}"
    return Blame("pilot", MISSING_OUTPUT, dialog)


def _unusable(outputs: Sequence[str]) -> Blame:
    return Blame("pilot", UNUSABLE_OUTPUT, f"size or checksum that cannot be in the pilot's list: {_named(outputs)}")


def _named(texts: Sequence[str]) -> str:
    more = len(texts) - MOST_TOLD
    return ", ".join(texts[:MOST_TOLD]) + (f" and {more} more" if more > 0 else "")


def blame(stored: dict[str, Any]) -> Blame:
    """Who caused a job's failure: its payload, or the pilot and what is below it.

    The payload did if it ended with an error or the pilot stopped it for what it did (PanDA pilot: error codes); not if
    somebody else had it ended, whatever it returned then. The dialog names what was not understood.
    """
    pilot_code = int(stored.get("pilot_error_code") or 0)
    exit_code = int(stored.get("exe_error_code") or stored.get("trans_exit_code") or 0)
    pilot_diag = str(stored.get("pilot_error_diag") or "")
    if exit_code and pilot_code not in OUT_OF_MEMORY_CODES | ENDED_FROM_OUTSIDE:
        text = str(stored.get("exe_error_diag") or pilot_diag or f"payload ended with code {exit_code}")
        return Blame("payload", exit_code, text + _not_understood(stored))
    if pilot_code in PAYLOAD_CODES:
        text = pilot_diag or f"pilot stopped the payload, code {pilot_code}"
        return Blame("payload", pilot_code, text + _not_understood(stored))
    return Blame("pilot", pilot_code, (pilot_diag or f"pilot failed, code {pilot_code}") + _not_understood(stored))


def _not_understood(stored: Mapping[str, Any]) -> str:
    lost: Mapping[str, str] = stored.get("lost_fields") or {}
    return "".join(f"; {field} {value!r} was not understood" for field, value in list(lost.items())[:MOST_TOLD])
