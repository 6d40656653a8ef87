"""One run: the world, the scheduler's loop, the checks after each step."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry

from shared.auth import Authority
from shared.messaging.in_process import InProcessTransport
from shared.messaging.metrics import MessagingMetrics
from tests.simulation import workload
from tests.simulation.checking import Observed
from tests.simulation.clock import VirtualClock
from tests.simulation.commands import gives_every
from tests.simulation.crashes import Crashes, ServiceDied, SimulatedDatabase
from tests.simulation.faults import Faults, SeededSchedule
from tests.simulation.inputs import Inputs
from tests.simulation.pilots import Pilots
from tests.simulation.rounds import Rounds
from tests.simulation.scenario import GROWING_FILES, queue_names, small_grid, storages
from tests.simulation.services import Services
from tests.simulation.stage import Stage
from tests.simulation.users import Users
from tests.simulation.waiting import Patience

#: how long things go wrong in a run: its beginning, or nearly to its end
FEWEST_FAULTY_STEPS, MOST_FAULTY_STEPS = 150, 600
#: and so many more with tasks of other kinds, whose first ranges and libraries come later
MORE_WITH_OTHER_KINDS = 600
LAST_STEP = 4_000
#: and so many more with tasks of other kinds, of which there are more, and some wait for hours
MORE_LAST_STEPS = 4_000
CHECK_ALL_EVERY = 50
#: steps that a failure tells about
TRACED = 25
#: of so many seeds one has queues that are full with their first jobs: tasks wait, and go on as they drain
FULL_SEEDS = 3
SHORTEST_LEAP_S, LONGEST_LEAP_S = 20.0, 600.0
#: after the last task ended: rounds of periodic work; statistics are audited in each, usage is compared in every other
CLOSING_ROUNDS, CLOSING_LEAP_S = 5, 200.0

Happening = Callable[[], Coroutine[Any, Any, None]]


class InvariantBroken(AssertionError):
    """What the checks found, with the seed and step that show it."""


class NeverEnded(AssertionError):
    """Tasks that neither ended nor said why they wait."""


@dataclass
class Report:
    """How a run went. `fingerprint` is equal for equal seeds."""

    seed: int
    steps: int = 0
    deaths: int = 0
    waited: int = 0
    simulated_s: float = 0.0
    fingerprint: str = ""
    statuses: dict[int, str] = field(default_factory=dict)
    trace: list[str] = field(default_factory=list)

    @property
    def replay(self) -> str:
        return f"seed {self.seed}, step {self.steps} (replay: python -m tests.simulation {self.seed})"


class Simulation:
    """`run` makes the whole run; `stage`: as the prepared world is; `faults` instead of the seed's own."""

    def __init__(self, seed: int, stage: Stage, authority: Authority, faults: Faults | None = None) -> None:
        self.rng = random.Random(seed)
        self._has_other_kinds = workload.has_other_kinds(seed)
        self.faults = faults or Faults.draw(self.rng, busy=gives_every(seed), with_ranges=self._has_other_kinds)
        self.faulty_steps = self.rng.randint(FEWEST_FAULTY_STEPS, MOST_FAULTY_STEPS)
        self.faulty_steps += MORE_WITH_OTHER_KINDS * self._has_other_kinds
        self.report = Report(seed)
        self.clock = VirtualClock()
        self._stage, self._authority = stage, authority
        self._idle_s = SHORTEST_LEAP_S
        self._seen = Observed()
        self._outbox_may_have_news = True

    async def run(self) -> Report:
        """Raises InvariantBroken, or NeverEnded."""
        self.crashes = Crashes(self.rng)
        pool, self.checker = self._stage.pool, self._stage.checker
        self.database = SimulatedDatabase(pool, actor="simulation", now=self.clock, crashes=self.crashes)
        self.database.on_commit.append(self._note_news)
        self.patience = Patience(self._stage.reader)
        self.schedule = SeededSchedule(self.rng, self.clock)
        metrics = MessagingMetrics(CollectorRegistry())
        self.transport = InProcessTransport(self.database, metrics, schedule=self.schedule)
        url, seed = self._stage.url, self.report.seed
        self.services = Services(self.rng, self.database, url, self.transport, self._authority, seed)
        asks_all, tasks = gives_every(seed), workload.of_seed(seed)
        self.users = Users(self.rng, self.services, self._authority, self._note, tasks, give_all=asks_all)
        disk = storages(small_grid())[0]
        # whoever makes the input is none of the services: nothing dies there
        producer = SimulatedDatabase(pool, actor="producer", now=self.clock, crashes=Crashes(self.rng))
        self.inputs = Inputs(self.rng, producer, disk, GROWING_FILES, self._note, in_every_way=asks_all)
        self.pilots = Pilots(
            self.rng, self.services, self._authority, self.clock, queue_names(), self._note,
            visits_all=self._has_other_kinds,
        )  # fmt: skip
        self.rounds = Rounds(self.rng, self.services, self.clock, self._note)
        try:
            await self.services.start()
            await self._begin()
            await self._loop()
            await self._close()
            await self._judge()
        except AssertionError as error:
            error.add_note("\n  ".join([f"{self.report.replay}, the last steps:", *self.report.trace[-TRACED:]]))
            raise
        finally:
            await self.services.stop()
        return self.report

    async def _begin(self) -> None:
        """What users do before anything else happens."""
        if self._has_other_kinds:
            await self._open_for_other_kinds()
        if self.report.seed % FULL_SEEDS == 0:
            await self.users.narrow_queues()
        await self.users.submit_all()

    async def _open_for_other_kinds(self) -> None:
        await self.users.open_for_other_kinds()
        while await self.transport.load() or self.transport.waiting:
            await self.transport.step()

    # -- the loop

    async def _loop(self) -> None:
        self._set_faults(self.faults)
        while not (self._seen.ended and self.report.steps > 1):
            if self.report.steps == self.faulty_steps:
                self._set_faults(Faults())
                await self.users.resume_all()
                await self.inputs.settle()
                if gives_every(self.report.seed):
                    await self.users.retry_all()
            if self.report.steps >= LAST_STEP + MORE_LAST_STEPS * self._has_other_kinds:
                await self._judge()
            await self._step(self._choose())

    async def _step(self, happen: Happening) -> None:
        """One thing happens; what it touched is checked, and now and then everything."""
        self.report.steps += 1
        self.clock.advance(self.rng.choice((0.001, 0.01, 0.5)))  # never nothing: what a step wrote is known by its time
        moment = self.clock()
        self.pilots.refused, commits_before = None, self.crashes.n_commits
        try:
            await self.crashes.survive(happen())
        except ServiceDied as death:
            self.report.deaths += 1
            self._note(f"{death} died")
            self._restart_bus()
            await self.services.restart(str(death))
        failures = self.services.background.failures()
        assert not failures, f"{self.report.replay}: a service's loop ended: {failures[0]!r}"
        self._complain([f"failed together, not alone: {one}" for one in self.services.failed_together()])
        if self.crashes.n_commits == commits_before:
            return
        self._seen = await self.checker.after_step(moment)
        self._complain([*self._seen.violations, *(f"parked: {one}" for one in self._seen.parked)])
        self.pilots.wanted_queues = self._seen.wanted_queues
        self.rounds.with_deferred = self._seen.has_deferred
        if self.pilots.refused is not None:
            changes = await self.checker.changes_of_job(self.pilots.refused, moment)
            self._complain([f"I6: a report of another attempt made job {self.pilots.refused} {one}" for one in changes])
        if self.report.steps % CHECK_ALL_EVERY == 0:
            self._complain(await self.checker.everything(self.clock(), at_rest=False))

    def _choose(self) -> Happening:
        faults, chance = self.schedule.faults, self.rng.random()
        for rate, fault in (
            (faults.restart_service, self._restart_one),
            (faults.forget_bus, self._forget_bus),
            (faults.command, self.users.command),
            (faults.change_input, self._change_input),
            (faults.leap, self._leap),
        ):
            if chance < rate:
                return fault
            chance -= rate
        if self.rounds.under_way:
            return self.rounds.go_on
        choices: list[tuple[Happening, int]] = []
        if self._outbox_may_have_news or self._arrived:
            choices.append((self._deliver, 8))
        ready = self.pilots.ready()
        if ready:
            choices.append((lambda: self.pilots.step(ready), 6))
        if not choices:
            return self._wait
        self._idle_s = SHORTEST_LEAP_S
        choices.append((self.rounds.one, 1))
        return self.rng.choices([choice for choice, _ in choices], [weight for _, weight in choices])[0]

    # -- what may happen

    async def _deliver(self) -> None:
        """Often before the newest messages were even looked for."""
        if self._outbox_may_have_news and (self.rng.random() < 0.3 or not self._arrived):
            self._outbox_may_have_news = False
            await self.transport.load()
        chosen = self.transport.choose()
        if chosen is not None:
            entries, handling = chosen
            for entry in entries:
                self._note(f"{handling} to {entry.delivery.consumer}: {entry.delivery.body.decode()[:200]}")
            await self.transport.make(entries, handling)

    async def _wait(self) -> None:
        """Nothing to do: time passes, longer each time, and all periodic work is due."""
        # jobs are expected, and rightly, as long as the message that has them counted is on its way
        faulty = self.report.steps < self.faulty_steps or self.schedule.is_late_for("job-brokerage.")
        self._complain(await self.patience.look(self.clock(), faulty=faulty))
        if self.patience.suspects:
            self._idle_s = SHORTEST_LEAP_S
        self.clock.advance(self._idle_s * self.rng.uniform(0.5, 1.0))
        self._idle_s = min(self._idle_s * 3, LONGEST_LEAP_S)
        self.rounds.begin(upkeep=bool(self.patience.suspects))

    async def _leap(self) -> None:
        """Time passes although there is something to do."""
        self.clock.advance(self.rng.uniform(1.0, LONGEST_LEAP_S))

    async def _change_input(self) -> None:
        await self.inputs.change()
        if self.inputs.is_broken:
            self.users.expect_part()

    async def _restart_one(self) -> None:
        name = self.rng.choice(self.services.names())
        self._note(f"{name} is restarted")
        await self.services.restart(name)

    async def _forget_bus(self) -> None:
        self._restart_bus()

    def _restart_bus(self) -> None:
        """What was not settled in the outbox is delivered again, whoever had it already."""
        self._note("everything in the outbox is delivered again")
        self.transport.forget()
        self.schedule.forget()
        self._outbox_may_have_news = True

    @property
    def _arrived(self) -> bool:
        return bool(self.schedule.ready(self.transport.waiting))

    def _note(self, what: str) -> None:
        self.report.trace.append(f"{self.report.steps} {self.clock():%H:%M:%S.%f} {what}")

    def _note_news(self) -> None:
        self._outbox_may_have_news = True

    def _set_faults(self, faults: Faults) -> None:
        self.schedule.faults = self.crashes.faults = self.pilots.faults = faults

    # -- the end

    async def _close(self) -> None:
        """Messages under way arrive and periodic work goes round a few times: then everything has to be at rest."""
        self._set_faults(Faults())
        for _ in range(CLOSING_ROUNDS):
            self.clock.advance(CLOSING_LEAP_S)
            self.rounds.begin()
            while self.rounds.under_way:
                await self._step(self.rounds.go_on)
            self.schedule.forget()
            while self._outbox_may_have_news or self.transport.waiting:
                await self._step(self._deliver)
        await self.transport.delete_settled()

    async def _judge(self) -> None:
        """Every task ended, and everything is in order and at rest."""
        tasks = await self.checker.tasks()
        self.report.statuses = {row["task_id"]: row["status"] for row in tasks}
        self.report.simulated_s = self.clock.elapsed_s
        self.report.waited = self.patience.n_waited
        if not self._seen.ended:
            lines = (f"task {r['task_id']}: {r['status']} until {r['retry_at']}, {r['error_dialog']}" for r in tasks)
            raise NeverEnded(f"{self.report.replay}: after {self.clock()}:" + "".join(f"\n  {line}" for line in lines))
        self._complain(await self.checker.everything(self.clock(), at_rest=True))
        self._complain(await self._results())
        self._complain(await self.checker.merged_without_report(self.pilots.finished_ranges))
        self.report.fingerprint = await self.checker.fingerprint()

    async def _results(self) -> Sequence[str]:
        """What users would complain about."""
        return await self.checker.results(sorted(self.users.ended))

    def _complain(self, violations: Sequence[str]) -> None:
        if violations:
            raise InvariantBroken("".join([self.report.replay, *(f"\n  {one}" for one in violations[:10])]))
