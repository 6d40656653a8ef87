"""One pilot as a state machine: `next` says what it does now.

`answered` and `unanswered` tell it the reply.

No clock, no network, no random state of its own: the fleet drives it in real time, a simulation on a virtual clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from services.cli.simulated_pilots import report
from services.cli.simulated_pilots.payload import Payload, draw
from services.cli.simulated_pilots.profile import Fault, Profile
from services.cli.simulated_pilots.ranges import RangeWork
from shared.states.job import JobStatus


class Phase(StrEnum):
    """Where a pilot is."""

    ASKING = "asking"
    STAGE_IN = "stage_in"
    RUNNING = "running"
    REPORTING = "reporting"
    ENDED = "ended"


@dataclass(frozen=True)
class Call:
    """A request: the method under /api/v1/pilot/, or another `area`, and its fields.

    `key` makes a repeat harmless.
    """

    method: str
    fields: Mapping[str, Any]
    key: str | None = None
    area: str = "pilot"


@dataclass(frozen=True)
class Wait:
    """Nothing to do until then."""

    until_s: float


@dataclass(frozen=True)
class PilotEnd:
    """The pilot has gone. `job` says whether it had one that it left behind."""

    reason: str
    leaves_job: bool = False


Action = Call | Wait | PilotEnd


@dataclass(frozen=True)
class Slot:
    """Where a pilot lives, and what it offers there."""

    queue: str
    node: str
    offer: Mapping[str, Any]


class Pilot:
    """`name` is unique among all pilots ever: its requests' keys are made of it.

    `on_end` is called with how each job ended, when it ends.
    """

    def __init__(
        self, name: str, slot: Slot, profile: Profile, *, on_end: Callable[[str], None] = lambda outcome: None
    ) -> None:
        self.name = name
        self.slot = slot
        self.phase = Phase.ASKING
        self.payload: Payload | None = None
        self.outcomes: dict[str, int] = {}
        self._profile = profile
        self._on_end = on_end
        self._n_asked = 0
        self._n_jobs = 0
        self._n_unanswered = 0
        self._not_before_s = 0.0
        self._phase_ends_s = 0.0
        self._next_beat_s = 0.0
        self._unsent: list[JobStatus] = []  # states to report at once, in order
        self._reports: list[dict[str, Any]] = []  # final reports to deliver, in order
        self._ranges: RangeWork | None = None
        self._asks_for_ranges = False
        self._ended: PilotEnd | None = None

    # -- what it does

    def next(self, now_s: float) -> Action:
        """The next thing to do; asked again after it was done, or at the time given."""
        if self._ended is not None:
            return self._ended
        if now_s < self._not_before_s:
            return Wait(self._not_before_s)
        if self.phase is Phase.ASKING:
            return self._ask()
        if self._unsent:
            return self._progress(self._unsent[0])
        if self.phase is Phase.REPORTING:
            return self._final()
        if now_s >= self._phase_ends_s:
            range_call = self._range_call()
            if range_call is not None:
                return range_call
            self._enter_next_phase(now_s)
            return self.next(now_s)
        if now_s >= self._next_beat_s:
            return self._progress("starting" if self.phase is Phase.STAGE_IN else "running")
        return Wait(min(self._phase_ends_s, self._next_beat_s))

    def _range_call(self) -> Call | None:
        """Ranges are taken and reported at the end of the payload, by one that ends well."""
        wanted = None
        if self.phase is Phase.RUNNING and self.payload is not None and self.payload.fault is None:
            wanted = self._ranges.call() if self._ranges is not None else None
        self._asks_for_ranges = wanted is not None
        return None if wanted is None else Call(wanted[0], wanted[1], area="event")

    def _ask(self) -> Action:
        fields = {**self.slot.offer, "site_name": self.slot.queue, "node": self.slot.node}
        return Call("acquire_jobs", fields, f"{self.name}-{self._n_asked}")

    def _progress(self, status: JobStatus) -> Call:
        assert self.payload is not None
        return Call("update_job", report.progress(self.payload, status, self.slot.node, self.slot.queue))

    def _final(self) -> Call:
        return Call("update_job", self._reports[0])

    # -- what it is told

    def answered(self, now_s: float, data: Mapping[str, Any]) -> None:
        """The reply's data came. Numbers may be numbers or texts."""
        self._n_unanswered = 0
        self._not_before_s = 0.0
        if self._asks_for_ranges and self._ranges is not None:
            self._asks_for_ranges = False
            self._ranges.answered(data.get("reply"))
            return
        code = int(data.get("StatusCode") or 0)
        if self.phase is Phase.ASKING:
            self._asked(now_s, code, data)
        elif "tobekilled" in str(data.get("command") or ""):
            self._finish_job(now_s, "told to stop")
        elif self._unsent:
            self._unsent.pop(0)
            self._next_beat_s = now_s + self._profile.heartbeat_s
        elif self.phase is Phase.REPORTING:
            self._final_answered(now_s, code)
        else:
            self._next_beat_s = now_s + self._profile.heartbeat_s

    def unanswered(self, now_s: float) -> None:
        """No reply, or the service was not able to answer: the same again, later each time.

        A heartbeat is dropped.
        """
        self._n_unanswered += 1
        wait_s = min(self._profile.back_off_s * 2 ** (self._n_unanswered - 1), self._profile.longest_back_off_s)
        is_beat = self.phase in (Phase.STAGE_IN, Phase.RUNNING) and not self._unsent
        if is_beat and not self._asks_for_ranges:
            self._next_beat_s = now_s + self._profile.heartbeat_s
        else:
            self._not_before_s = now_s + wait_s

    def terminate(self, now_s: float) -> None:
        """The batch system ends the pilot: the pilot, not its payload, reports a running job as failed."""
        self._not_before_s = 0.0
        if self.phase is Phase.ASKING and self._n_unanswered == 0:
            self._end("terminated")
        elif self.phase in (Phase.STAGE_IN, Phase.RUNNING) and self.payload is not None:
            self._unsent.clear()
            self._reports = [report.final(self.payload, self.slot.node, self.slot.queue, terminated=True)]
            self.phase = Phase.REPORTING
        self._n_jobs = self._profile.most_jobs

    # -- how it goes on

    def _asked(self, now_s: float, code: int, data: Mapping[str, Any]) -> None:
        self._n_asked += 1
        jobs = data.get("jobs") or []
        if code != 0 or not jobs:
            self._end("no job" if code in (0, 20) else f"refused with code {code}")
            return
        self.payload, self._ranges = draw(jobs[0], self._profile), RangeWork.of(jobs[0])
        self._n_jobs += 1
        if self.payload.fault is Fault.SILENT:
            self._end("silent", leaves_job=True)
            return
        self.phase = Phase.STAGE_IN
        self._phase_ends_s = now_s + (self.payload.stage_in_s if self.payload.has_input else 0.0)
        self._unsent = ["starting"]

    def _enter_next_phase(self, now_s: float) -> None:
        assert self.payload is not None
        if self.phase is Phase.STAGE_IN:
            self.phase = Phase.RUNNING
            fraction = self.payload.fault_at if self.payload.fault is Fault.VANISH else 1.0
            self._phase_ends_s = now_s + self.payload.runs_s * fraction
            # real pilots report running twice when there was input
            self._unsent = ["running", "running"] if self.payload.has_input else ["running"]
        elif self.payload.fault is Fault.VANISH:
            self._end("vanished", leaves_job=True)
        else:
            self.phase = Phase.REPORTING
            self._reports = self._final_reports(self.payload)
            self._not_before_s = now_s + self.payload.stage_out_s

    def _final_reports(self, payload: Payload) -> list[dict[str, Any]]:
        final = report.final(payload, self.slot.node, self.slot.queue)
        if payload.ends_as == Fault.BAD_REPORT:
            final = report.malformed(final)
        return [final, final] if payload.duplicate_report else [final]

    def _final_answered(self, now_s: float, code: int) -> None:
        self._reports.pop(0)
        if code != 0 and not self._reports:
            self._finish_job(now_s, "refused report")
        elif not self._reports:
            assert self.payload is not None
            self._finish_job(now_s, self.payload.ends_as)

    def _finish_job(self, now_s: float, outcome: str) -> None:
        self._count(outcome)
        self.payload = None
        self._unsent, self._reports = [], []
        self.phase = Phase.ASKING
        if self._n_jobs >= self._profile.most_jobs:
            self._end("enough jobs")

    def _count(self, outcome: str) -> None:
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
        self._on_end(outcome)

    def _end(self, reason: str, *, leaves_job: bool = False) -> None:
        if leaves_job:
            self._count(reason)
        self.phase = Phase.ENDED
        self._ended = PilotEnd(reason, leaves_job)
