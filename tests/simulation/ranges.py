"""What pilots of the simulation do with ranges of events: they take some, process them, and report them, also twice."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from services.job_dispatch.policy.event_ranges import BEFORE_DISPATCH, RangeId
from tests.simulation.faults import Faults
from tests.simulation.workload import FINE_GRAINED

MOST_AT_ONCE = 6
#: where files of ranges are written to, often the same
OBJECT_STORES = (1, 1, 1, 2)
#: of the ranges that cannot be processed so many never can be
FATAL_PART = 0.1
#: how often a report says only that ranges are being processed
ONLY_RUNS = 0.3
TAKE, REPORT = "acquire_event_ranges", "update_event_ranges"


class RangeWork:
    """The ranges of one job. `version` of its reports: alone, or in groups with the file that they were written to.

    With fine-grained processing it also reports ranges that follow those it was given, whoever has them.
    """

    def __init__(self, spec: Mapping[str, Any], rng: random.Random) -> None:
        self._job_id, self._task_id = int(spec["PandaID"]), int(spec["taskID"])
        self._rng = rng
        is_fine_grained = f".{FINE_GRAINED}." in str(spec.get("jobName"))
        self._version = BEFORE_DISPATCH if is_fine_grained else rng.choice((0, 1, 1))
        self._store = rng.choice(OBJECT_STORES)
        self._taken: list[str] = []
        self._n_files, self._ends_early = 0, 0.0
        self.is_over = False
        self.last_report: dict[str, Any] | None = None

    @classmethod
    def of(cls, spec: Mapping[str, Any], rng: random.Random) -> RangeWork | None:
        """For a job that processes events in ranges; None for any other."""
        return cls(spec, rng) if str(spec.get("eventService")) == "True" else None

    def call(self, faults: Faults, finished: set[str]) -> tuple[str, dict[str, Any]]:
        """The next call; what it says is finished is noted, for it counts also if the reply is lost."""
        self._ends_early = faults.ends_early
        if not self._taken:
            n_ranges = self._rng.randint(1, MOST_AT_ONCE)
            return TAKE, {"job_id": self._job_id, "task_id": self._task_id, "n_ranges": n_ranges}
        states = {one: self._state(faults) for one in self._taken}
        finished |= {one for one, state in states.items() if state == "finished"}
        self.last_report = self._report(states)
        return REPORT, self.last_report

    def answered(self, method: str, data: Any) -> None:
        """The reply's data. Without ranges, and now and then before, the job is over."""
        if method == TAKE:
            self._taken = [str(one["eventRangeID"]) for one in data] if isinstance(data, list) else []
            self.is_over = not self._taken
            if self._version == BEFORE_DISPATCH:
                self._taken += self._next_ones()
        else:
            told = data["Returns"] if isinstance(data, dict) else []
            assert len(told) == len(self._reported()), f"{self.last_report} was answered {data}"
            self._taken = self._running(told)
            self.is_over = self._rng.random() < self._ends_early

    def _next_ones(self) -> list[str]:
        """The ranges after those it was given, of which it was told nothing."""
        given = [one for one in map(RangeId.of, self._taken) if one is not None]
        ahead = self._rng.randint(0, MOST_AT_ONCE)
        return [str(one._replace(process_id=one.process_id + n)) for one in given[-1:] for n in range(1, ahead + 1)]

    def _state(self, faults: Faults) -> str:
        if self._rng.random() < faults.range_fails:
            return "fatal" if self._rng.random() < FATAL_PART else "failed"
        return "running" if self._rng.random() < ONLY_RUNS else "finished"

    def _report(self, states: Mapping[str, str]) -> dict[str, Any]:
        said = [{"eventRangeID": one, "eventStatus": state} for one, state in states.items()]
        if self._version == 0:
            return {"event_ranges": said, "version": 0}
        self._n_files += 1
        name = f"EventService_premerge_{self._job_id}.{self._n_files}.zip"
        written = {"lfn": name, "objstoreID": self._store, "fsize": 10_000, "numEvents": len(said),
                   "adler32": "0a0b0c0d"}  # fmt: skip
        return {"event_ranges": [{"zipFile": written, "eventRanges": said}], "version": self._version}

    def _reported(self) -> list[dict[str, str]]:
        if self.last_report is None:
            return []
        [*entries] = self.last_report["event_ranges"]
        return [one for entry in entries for one in entry.get("eventRanges", [entry])]

    def _running(self, told: Sequence[bool | None]) -> list[str]:
        """What was said to be running, and is the job's, is reported again later, unless the job ends early."""
        reported = zip(self._reported(), told, strict=True)
        return [one["eventRangeID"] for one, is_noted in reported if one["eventStatus"] == "running" and is_noted]
