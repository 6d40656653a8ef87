"""Pilots of the simulation, on the real routes of job_dispatch; replies get lost, reports are repeated or late."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from services.cli.simulated_pilots.command_line import named_files
from services.cli.simulated_pilots.payload import returned_by
from shared.auth import Authority
from tests.simulation.clock import VirtualClock
from tests.simulation.faults import Faults
from tests.simulation.ranges import REPORT, RangeWork
from tests.simulation.services import Services

PILOTS = 12
#: with `visits_all`: after so long a pilot asks at its queue although no job waits there, as those of factories do
VISITS_EVERY_S = 3600.0
#: codes of the wire protocol: payload failed, stage-out failed, out of memory
FAILURES = (1305, 1137, 1212)
#: and one of merge jobs of event service: what they read is bad
BAD_FILES = 1103


@dataclass
class Pilot:
    """One pilot at one queue; `job` is what it runs, `key` the request whose answer it has not seen."""

    number: int
    queue: str
    key: str | None = None
    job: dict[str, Any] | None = None
    state: str = "idle"
    asks_again_at_s: float = 0.0  # the first time that it may
    final: dict[str, Any] = field(default_factory=dict)
    ranges: RangeWork | None = None


@dataclass(frozen=True)
class Zombie:
    """A pilot that everybody takes for dead, with what it will say when it is back: of its job, or of ranges."""

    returns_at_s: float
    body: dict[str, Any]
    ranges: dict[str, Any] | None = None


class Pilots:
    """`wanted_queues` is what a factory would follow: where jobs wait. `refused` names a job that the last step must
    not have changed. `finished_ranges`: names of those that pilots said to have processed."""

    def __init__(
        self,
        rng: random.Random,
        services: Services,
        authority: Authority,
        clock: VirtualClock,
        queues: list[str],
        note: Callable[[str], None],
        *,
        visits_all: bool = False,
    ) -> None:
        self._rng, self._clock, self._note, self._visits_all = rng, clock, note, visits_all
        self._client = services.client("job-dispatch", authority.issue("pilots", ["pilot"]))
        self._pilots = [Pilot(number, queues[number % len(queues)]) for number in range(PILOTS)]
        self._zombies: list[Zombie] = []
        self._requests = 0
        self.faults = Faults()
        self.wanted_queues: frozenset[str] = frozenset()
        self.refused: int | None = None
        self.finished_ranges: set[str] = set()

    def ready(self) -> list[Pilot | Zombie]:
        """Those who have something to say now."""
        now = self._clock.elapsed_s
        pilots = [one for one in self._pilots if one.job is not None or self._asks(one, now)]
        return [*pilots, *(one for one in self._zombies if one.returns_at_s <= now)]

    async def step(self, ready: list[Pilot | Zombie]) -> None:
        """One of them says it."""
        pilot = self._rng.choice(ready)
        if isinstance(pilot, Zombie):
            await self._haunt(pilot)
        elif pilot.job is None:
            await self._acquire(pilot)
        elif self._rng.random() < self.faults.pilot_vanishes:
            self._vanish(pilot)
        elif self._rng.random() < self.faults.stale_report:
            await self._report_other_attempt(pilot)
        elif pilot.ranges is not None and pilot.state == "running" and not pilot.ranges.is_over:
            await self._process(pilot, pilot.ranges)
        else:
            await self._report(pilot)

    def _asks(self, pilot: Pilot, now: float) -> bool:
        visits = self._visits_all and now >= pilot.asks_again_at_s + VISITS_EVERY_S
        return visits or (now >= pilot.asks_again_at_s and (pilot.queue in self.wanted_queues or pilot.key is not None))

    async def _acquire(self, pilot: Pilot) -> None:
        self._requests += 1
        pilot.key = pilot.key or f"pilot-{pilot.number}-{self._requests}"
        body = {"site_name": pilot.queue, "node": f"node{pilot.number}", "prod_source_label": ""}
        data = await self._call("acquire_jobs", body, {"Idempotency-Key": pilot.key})
        if data is None:
            return
        pilot.key = None
        if data["StatusCode"] != 0 or not data.get("jobs"):
            self._note(f"pilot {pilot.number}: nothing at {pilot.queue}: {data.get('reason')}")
            pilot.asks_again_at_s = self._clock.elapsed_s + self._rng.uniform(20, 60)
        else:
            pilot.job, pilot.state = data["jobs"][0], "sent"
            pilot.ranges = RangeWork.of(pilot.job, self._rng)
            self._note(f"pilot {pilot.number}: has job {pilot.job['PandaID']}")

    async def _report(self, pilot: Pilot) -> None:
        if not pilot.final:
            pilot.state = self._next_state(pilot)
        body = self._body(pilot)
        if pilot.state in ("finished", "failed"):
            pilot.final = pilot.final or self._final(pilot)
            body |= pilot.final
        data = await self._call("update_job", body, {})
        if data is None:
            return
        command = str(data.get("command") or "")
        self._note(f"pilot {pilot.number}: job {body['job_id']} is {pilot.state}; it is told {command}")
        is_over = pilot.state in ("finished", "failed") and self._rng.random() >= self.faults.report_twice
        if is_over or "tobekilled" in command:
            self._forget(pilot)

    async def _process(self, pilot: Pilot, ranges: RangeWork) -> None:
        """It takes ranges or reports some; what it reported is perhaps said again, at once or much later."""
        method, body = ranges.call(self.faults, self.finished_ranges)
        data = await self._call(method, body, {}, area="event")
        if data is not None:
            ranges.answered(method, data)
            self._note(f"pilot {pilot.number}: {method} {body} was answered {data}")
        if ranges.last_report is not None and self._rng.random() < self.faults.report_twice:
            returns_at_s = self._clock.elapsed_s + self._rng.choice((0.0, 60.0, 14400.0)) * self._rng.random()
            self._zombies.append(Zombie(returns_at_s, self._body(pilot), ranges.last_report))

    async def _report_other_attempt(self, pilot: Pilot) -> None:
        """Something left over from another attempt: nothing may change, and it is told to stop."""
        body = self._body(pilot) | {"job_status": self._rng.choice(("running", "finished", "failed"))}
        body["attempt_nr"] += self._rng.choice((-1, 1))
        self.refused = body["job_id"]
        data = await self._call("update_job", body, {})
        self._note(f"a report of attempt {body['attempt_nr']}: job {body['job_id']} is {body['job_status']}")
        assert data is None or "tobekilled" in str(data.get("command")), f"{body} was answered {data}"

    def _vanish(self, pilot: Pilot) -> None:
        """Nobody hears of it for hours, or never again."""
        if self._rng.random() < 0.5:
            state = self._rng.choice(("running", "finished", "failed"))
            final = self._final(pilot) if state == "finished" else {}
            returns_at_s = self._clock.elapsed_s + self._rng.uniform(60.0, 14400.0)
            self._zombies.append(Zombie(returns_at_s, self._body(pilot) | {"job_status": state} | final))
        self._forget(pilot)

    async def _haunt(self, zombie: Zombie) -> None:
        self._zombies.remove(zombie)
        if zombie.ranges is not None:
            data = await self._call(REPORT, zombie.ranges, {}, area="event")
            self._note(f"late: {zombie.ranges} was answered {data}")
            return
        data = await self._call("update_job", zombie.body, {})
        self._note(f"zombie: job {zombie.body['job_id']} is {zombie.body['job_status']}; it is told {data}")

    def _body(self, pilot: Pilot) -> dict[str, Any]:
        assert pilot.job is not None
        return {"job_id": pilot.job["PandaID"], "attempt_nr": pilot.job["attemptNr"], "job_status": pilot.state}

    def _next_state(self, pilot: Pilot) -> str:
        if pilot.state == "sent":
            return self._rng.choice(("starting", "running", "finished"))
        if pilot.state == "starting":
            return "running"
        if self._rng.random() < 0.3:
            return "running"
        return "failed" if self._rng.random() < self.faults.payload_fails else "finished"

    def _final(self, pilot: Pilot) -> dict[str, Any]:
        assert pilot.job is not None
        if pilot.state == "failed":
            merges = str(pilot.job.get("eventServiceMerge")) == "True"
            codes = (*FAILURES, BAD_FILES) if merges else FAILURES
            return {"pilot_error_code": self._rng.choice(codes), "pilot_error_diag": "simulated failure",
                    "trans_exit_code": 1}  # fmt: skip
        written = named_files(pilot.job) | {pilot.job.get("logFile")}
        names = [name for name in str(pilot.job.get("outFiles", "")).split(",") if name in written]
        report = {
            name: {"guid": f"{self._rng.randrange(16**12):012x}", "fsize": self._rng.randrange(10**5, 10**7),
                   "adler32": f"{self._rng.randrange(16**8):08x}"}
            for name in names
        }  # fmt: skip
        returned = returned_by(pilot.job)
        metadata = {} if returned is None else {"meta_data": {"taskParameters": returned}}
        return {"job_output_report": report, "n_events": 100, "cpu_consumption_time": 900, "core_count": 1,
                "max_pss": 1_000_000, **metadata}  # fmt: skip

    async def _call(
        self, method: str, body: dict[str, Any], headers: dict[str, str], *, area: str = "pilot"
    ) -> Any | None:
        """The reply's data; None where the reply was lost or the service could not answer."""
        reply = await self._client.post(f"/api/v1/{area}/{method}", body, headers)
        if reply.status == 503 or self._rng.random() < self.faults.lose_reply:
            return None
        assert reply.status == 200, f"{method}: {reply.status} {reply.text}"
        return reply.json()["data"]

    def _forget(self, pilot: Pilot) -> None:
        if self._visits_all:
            pilot.asks_again_at_s = self._clock.elapsed_s
        pilot.job, pilot.final, pilot.state, pilot.key, pilot.ranges = None, {}, "idle", None, None
