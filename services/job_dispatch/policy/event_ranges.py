"""What a pilot's report does to a range of events, with the reason.

Source: JEDI: Transition of event status. The counter of a range's attempts counts down; a failed range keeps its row,
and a copy with one attempt less is what pilots get next.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from shared.model.whole_numbers import LARGEST_ID, LARGEST_INT4
from shared.states.event_range import EventRangeStatus

ReportedRangeStatus = Literal["running", "finished", "failed", "fatal"]

#: fine-grained processing: events may be reported before they were given out
BEFORE_DISPATCH = 2

#: the states that a report leads through, from each state in which a pilot has the range
_STEPS: Mapping[tuple[ReportedRangeStatus, EventRangeStatus], tuple[EventRangeStatus, ...]] = {
    ("running", "sent"): ("running",),
    ("finished", "sent"): ("finished",),
    ("finished", "running"): ("finished",),
    ("failed", "sent"): ("failed",),
    ("failed", "running"): ("failed",),
    ("fatal", "sent"): ("failed", "fatal"),
    ("fatal", "running"): ("fatal",),
}
#: states that say the same as a report, which then came twice
_SAID: Mapping[ReportedRangeStatus, frozenset[EventRangeStatus]] = {
    "running": frozenset({"running"}),
    "finished": frozenset({"finished", "done", "merged"}),
    "failed": frozenset({"failed"}),
    "fatal": frozenset({"fatal"}),
}


class RangeId(NamedTuple):
    """`<task>-<panda>-<file>-<processID>-<attempt>`, as pilots name a range.

    "7-1001-52-3-10" is the third range of file 52 of task 7, in job 1001, with ten attempts left.
    """

    task_id: int
    job_id: int
    file_id: int
    process_id: int
    attempt_nr: int

    @property
    def key(self) -> tuple[int, int, int, int]:
        """What its row is found by; who had the range is not among it."""
        return self.task_id, self.file_id, self.process_id, self.attempt_nr

    def __str__(self) -> str:
        return f"{self.task_id}-{self.job_id}-{self.file_id}-{self.process_id}-{self.attempt_nr}"

    @classmethod
    def of(cls, text: object) -> RangeId | None:
        """The id in a text; None where it is none."""
        parts = text.split("-") if isinstance(text, str) and len(text) <= 110 and text.isascii() else []
        if len(parts) != 5 or not all(map(str.isdigit, parts)):
            return None
        numbers = list(map(int, parts))
        return cls(*numbers) if max(numbers) <= LARGEST_ID and numbers[4] <= LARGEST_INT4 else None


class RangeRow(NamedTuple):
    """A range as it is stored; `is_input`: its file is an input of the reporting job."""

    event_range_id: int
    status: EventRangeStatus
    job_id: int | None
    attempt_nr: int
    is_input: bool = False


class RangeVerdict(NamedTuple):
    """The states that the range goes through, and what the pilot is told.

    `told`: True done, False refused, None skipped. `has_copy`: a copy with one attempt less becomes ready.
    """

    steps: tuple[EventRangeStatus, ...]
    told: bool | None
    reason: str

    @property
    def has_copy(self) -> bool:
        """Whether another attempt follows: it does of a range that failed, and of none that is fatal."""
        return self.steps[-1:] == ("failed",)


def judge_range(
    reported: ReportedRangeStatus, range_id: RangeId, row: RangeRow | None, why_not: str | None, version: int
) -> RangeVerdict:
    """The verdict on one report; `why_not`: why the reporter may report nothing of the job.

    A range that is ready was given to nobody: only version 2 takes it with the report, if its file is an input of the
    job and it has an attempt left.
    """
    if why_not is not None:
        return RangeVerdict((), False, why_not)
    if row is None:
        return RangeVerdict((), False, f"there is no range {range_id}")
    if row.status == "ready":
        if version != BEFORE_DISPATCH or not row.is_input or row.attempt_nr <= 0:
            return RangeVerdict((), False, f"range {range_id} was not given to job {range_id.job_id}")
        steps = _STEPS[reported, "sent"]
        return RangeVerdict(("sent", *steps), True, f"{reported} by the pilot before it was given out")
    if row.job_id != range_id.job_id:
        return RangeVerdict((), False, f"range {range_id} belongs to job {row.job_id}")
    if (reported, row.status) in _STEPS:
        return RangeVerdict(_STEPS[reported, row.status], True, f"{reported} by the pilot")
    if row.status in _SAID[reported]:
        return RangeVerdict((), True, f"was {row.status} before")
    return RangeVerdict((), None, f"is {row.status}: {reported} changes nothing any more")
