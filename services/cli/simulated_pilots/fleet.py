"""The program: a number of pilot slots, a factory that fills them, and an orderly end."""

from __future__ import annotations

import asyncio
import difflib
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from services.cli.simulated_pilots.allocation import Allocation, QueueSite, queue_from_record
from services.cli.simulated_pilots.behaviour import Call, Phase, Pilot, PilotEnd, Slot, Wait
from services.cli.simulated_pilots.connection import Connection
from services.cli.simulated_pilots.profile import Profile

LOOK_EVERY_S = 1.0
EXPLORE_EVERY_S = 0.25
STOP_GRACE_S = 6.0


@dataclass(frozen=True)
class FleetOptions:
    """`queues`: pilots of fixed queues; empty: a factory sends them where jobs wait.

    `fleet_id`: unique to the run.
    """

    count: int
    speed_up: float
    profile: Profile
    fleet_id: str
    queues: Mapping[str, int] = field(default_factory=dict)


class NoSuchQueue(ValueError):
    """Pilots were asked for at queues that the grid does not have; the text has the names most like them."""

    def __init__(self, unknown: Sequence[str], known: Sequence[str]) -> None:
        told = []
        for name in unknown:
            near = difflib.get_close_matches(name, known, n=3)
            told.append(f"there is no queue {name}" + (f"; did you mean {' or '.join(near)}?" if near else ""))
        super().__init__("; ".join(told))


@dataclass
class Tally:
    """What the fleet did.

    `pilots`: all that were sent, one after the other; most visit a queue once and find nothing. `pilots_with_jobs`:
    those that took at least one.
    """

    pilots: int = 0
    pilots_with_jobs: int = 0
    jobs: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    endings: Counter[str] = field(default_factory=Counter)

    def line(self, at_a_time: int, elapsed_s: float = 0.0) -> str:
        """Text for people; the rate stands where a time is given.

        Example: "7 jobs taken by 5 of 40 pilots, 20 at a time, 0.7 jobs/s; finished 6".
        """
        rate = f", {self.jobs / elapsed_s:.1f} jobs/s" if elapsed_s else ""
        outcomes = ", ".join(f"{name} {count}" for name, count in sorted(self.outcomes.items()))
        return (
            f"{self.jobs} jobs taken by {self.pilots_with_jobs} of {self.pilots} pilots, {at_a_time} at a time{rate}; "
            f"{outcomes or 'none ended yet'}"
        )


class Fleet:
    """`run` lives until `stop` is called or its deadline passes."""

    def __init__(
        self, options: FleetOptions, connection: Connection, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.options = options
        self.tally = Tally()
        self._connection = connection
        self._clock = clock
        self._rng = random.Random(options.profile.seed)
        self._profile = options.profile.faster(options.speed_up)
        self._allocation = Allocation((), self._rng)
        self._fixed = [name for name, count in sorted(options.queues.items()) for _ in range(count)]
        self._stop = asyncio.Event()
        self._number = 0
        self._explored_at = float("-inf")

    def now_s(self) -> float:
        """Simulated seconds."""
        return self._clock() * self.options.speed_up

    def stop(self) -> None:
        """Ask every pilot to end; it reports its running job as failed, so that the job runs elsewhere."""
        self._stop.set()

    async def run(self) -> Tally:
        """Fill the slots until told to stop. Raises NotAllowed, NoSuchQueue."""
        if not await self._first_look():
            return self.tally
        tasks = [asyncio.create_task(self._slot(place)) for place in range(self.options.count)]
        tasks.append(asyncio.create_task(self._look()))
        stopping = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait([stopping, *tasks], return_when=asyncio.FIRST_COMPLETED)
            self._stop.set()
            await asyncio.wait(tasks, timeout=STOP_GRACE_S)
        finally:
            for task in (stopping, *tasks):
                task.cancel()
            await asyncio.gather(stopping, *tasks, return_exceptions=True)
        for task in tasks:
            if not task.cancelled() and task.exception() is not None:
                raise task.exception() or RuntimeError
        return self.tally

    # -- the factory

    async def _first_look(self) -> bool:
        """The queues and what pilots offer there; asked for until it is known. Raises NoSuchQueue."""
        while not self._stop.is_set():
            records = await self._connection.call("job_brokerage", "grid/queues")
            self._refuse_unknown(records or ())
            queues = [one for one in map(queue_from_record, records or ()) if one is not None]
            if self._fixed:
                known = {one.name: one for one in queues}
                queues = [known.get(name) or QueueSite(name, 1.0, {}) for name in dict.fromkeys(self._fixed)]
            if queues:
                self._allocation = Allocation(queues, self._rng)
                return True
            await self._pause(LOOK_EVERY_S)
        return False

    def _refuse_unknown(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Pilots of a queue that the grid does not have would ask for ever; an empty grid may still be loaded."""
        known = [str(one.get("queue")) for one in records]
        unknown = [name for name in self.options.queues if name not in known]
        if known and unknown:
            raise NoSuchQueue(unknown, known)

    async def _look(self) -> None:
        """What waits where, again and again."""
        while not self._stop.is_set():
            found = await self._connection.call("job_dispatch", "statistics/active_job_stats_by_site")
            if found is not None:
                activated = {
                    queue: sum(states.get("activated", 0) for states in types.values())
                    for queue, types in found.items()
                }
                self._allocation.set_demand(activated)
            await self._pause(LOOK_EVERY_S)

    def _next_site(self, place: int) -> QueueSite | None:
        if self._fixed:
            return self._allocation.queues[self._fixed[place % len(self._fixed)]]
        exploring = self._clock() - self._explored_at >= EXPLORE_EVERY_S
        site = self._allocation.next_queue(exploring=exploring)
        if site is not None and exploring:
            self._explored_at = self._clock()
        return site

    async def _pause(self, seconds: float) -> None:
        """Sleep, but wake up for the stop."""
        try:
            async with asyncio.timeout(seconds):
                await self._stop.wait()
        except TimeoutError:
            return

    # -- one slot

    async def _slot(self, place: int) -> None:
        """One pilot after the other."""
        node = f"node{place:04d}.simulated"
        while not self._stop.is_set():
            site = self._next_site(place)
            if site is None:
                await self._pause(self._rng.uniform(0.3, 0.7))
                continue
            self._number += 1
            name = f"{self.options.fleet_id}-{self._number}"
            slot = Slot(site.name, node, site.offer)
            pilot = Pilot(name, slot, self._profile, on_end=lambda outcome: self.tally.outcomes.update([outcome]))
            self.tally.pilots += 1
            end = await self._live(pilot, worker_id=self._number)
            self.tally.endings[end.reason] += 1
            if end.reason == "no job" and self._fixed:
                await self._pause(self._rng.uniform(0.5, 1.0))

    async def _live(self, pilot: Pilot, worker_id: int) -> PilotEnd:
        """Do what the pilot says until it ends."""
        first, terminated = True, False
        while True:
            if self._stop.is_set() and not terminated:  # here, and not while a reply is on its way
                pilot.terminate(self.now_s())
                terminated = True
            action = pilot.next(self.now_s())
            if isinstance(action, PilotEnd):
                if first:
                    self._allocation.asked(pilot.slot.queue, got_job=False)
                elif pilot.outcomes:
                    await self._worker(pilot, worker_id, "finished")
                return action
            if isinstance(action, Wait):
                await self._pause(max(0.0, (action.until_s - self.now_s()) / self.options.speed_up) + 0.001)
                if terminated and pilot.phase is Phase.ASKING:
                    return PilotEnd("terminated")
                continue
            asked = action.method == "acquire_jobs"
            reply = await self._call(action)
            if reply is None:
                pilot.unanswered(self.now_s())
                if self._stop.is_set():
                    return PilotEnd("terminated", leaves_job=pilot.payload is not None)
                continue
            pilot.answered(self.now_s(), reply)
            if asked:
                got_job = pilot.payload is not None
                self.tally.jobs += got_job
                if first:
                    self._allocation.asked(pilot.slot.queue, got_job=got_job)
                    first = False
                    if got_job:
                        self.tally.pilots_with_jobs += 1
                        await self._worker(pilot, worker_id, "started")

    async def _call(self, call: Call) -> Mapping[str, Any] | None:
        reply = await self._connection.call("job_dispatch", f"{call.area}/{call.method}", call.fields, key=call.key)
        if call.area == "event" and reply is not None:
            return {"reply": reply}
        return reply if isinstance(reply, dict) else None

    async def _worker(self, pilot: Pilot, worker_id: int, status: str) -> None:
        """The worker's own report; losing one changes nothing."""
        fields = {
            "worker_id": worker_id,
            "harvester_id": self.options.fleet_id,
            "site": pilot.slot.queue,
            "node_id": pilot.slot.node,
            "status": status,
        }
        await self._connection.call("job_dispatch", "pilot/update_worker_status", fields)
