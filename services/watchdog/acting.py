"""Actions: what the watchdog does every so often; each has a name, a period, partitions and work.

Each partition of each has a lease, a turn and a loop of its own, so that a slow one delays no other, and several
replicas may share an action. A call does one slice in one transaction and
says what it found and did; what was said to others, with ids, is kept of the last slice that did something.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from services.watchdog.parameters import Periods
from services.watchdog.store.acting import SQL
from shared.config.parameters import Parameters
from shared.db.database import Database
from shared.db.unit_of_work import UnitOfWork
from shared.events.base import Event
from shared.runtime.service import Periodic

#: how often the turn of each action is tried; the real periods are runtime parameters (`parameters.py`)
TICK_S = 5.0
#: of a slice; what is left follows in the next one. Whatever its time, it does so many: what it read took most of it
SLICE_S, FEWEST = 0.2, 50
#: of one run that is asked for: slices, seconds, ids that are told of each event
MOST_SLICES, MOST_SECONDS, MOST_IDS = 200, 20.0, 1000
#: what began before a look and was committed after it is seen by the next one
OVERLAP = timedelta(minutes=2)
EVER = datetime(1970, 1, 1, tzinfo=UTC)
#: what a search of what changed misses is found within so long
ALL_EVERY = timedelta(hours=1)
#: fields of events that name what they are about
_ABOUT = ("job_ids", "failed_job_ids", "task_id", "chunk_id", "transfer_ids")


@dataclass(frozen=True)
class SliceTime:
    """How long a slice goes on, by the clock of its transaction.

    That of a simulation is the same in each run of a seed.
    """

    clock: Callable[[], float]
    until: float

    @classmethod
    def of(cls, work: UnitOfWork) -> SliceTime:
        """From now on."""
        return cls(work.clock, work.clock() + SLICE_S)

    @property
    def is_over(self) -> bool:
        """Whether what is left is for the next slice."""
        return self.clock() > self.until

    def ends_after(self, n_done: int) -> bool:
        """Whether what is left, after so many of a kind that was read at once, is for the next slice."""
        return n_done >= FEWEST and self.is_over


@dataclass
class Lately:
    """Since when a search asks about what changed: since its last look.

    Where it judged otherwise then, it asks about all, and once an hour: not all that it goes by has a time of change.
    `judged_by`: what the answer depends on besides rows.
    """

    judged_by: object = None
    until: datetime = EVER
    all_until: datetime = EVER

    def since(self, judged_by: object, now: datetime) -> datetime:
        """From when on changes are asked about."""
        return EVER if self._asks_about_all(judged_by, now) else max(EVER, self.until - OVERLAP)

    def looked(self, judged_by: object, now: datetime) -> None:
        """Note that all that changed until now was judged."""
        if self._asks_about_all(judged_by, now):
            self.all_until = now
        self.judged_by, self.until = judged_by, now

    def _asks_about_all(self, judged_by: object, now: datetime) -> bool:
        return judged_by != self.judged_by or now - self.all_until > ALL_EVERY


@dataclass(frozen=True)
class Looked:
    """What a slice found and did. It is true while more is left, so that the next slice follows at once."""

    more: bool = False
    n_found: int = 0
    n_done: int = 0

    def __bool__(self) -> bool:
        return self.more


@dataclass(frozen=True)
class Action:
    """One thing that the watchdog does; `period`: which of its periods.

    `partitions`: parts that are done side by side, each by its name; without any, all is done by one.
    `dry_slices`: slices of a dry run. Each is rolled back, so that only one that knows by itself what comes next, as a
    sweep of kinds, has more than the first. `rest`: between two slices, times as long as the one before took.
    """

    name: str
    does: str
    period: Callable[[Periods], float]
    run: Callable[[UnitOfWork], Awaitable[Looked]] | None = None
    partitions: Mapping[str, Callable[[UnitOfWork], Awaitable[Looked]]] = field(default_factory=dict)
    dry_slices: int = 1
    rest: float = 0.0

    def parts(self) -> list[Part]:
        """Its partitions, or itself."""
        if self.run is not None:
            return [Part(self, "", self.run)]
        return [Part(self, partition, run) for partition, run in self.partitions.items()]


@dataclass(frozen=True)
class Part:
    """An action, or a partition of it: what has a turn."""

    action: Action
    partition: str
    run: Callable[[UnitOfWork], Awaitable[Looked]]

    @property
    def watch(self) -> str:
        """Its name among the turns."""
        return f"{self.action.name}/{self.partition}" if self.partition else self.action.name


class ActionMetrics:
    """What actions found and did, how long that took, and how late they were."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, means: str) -> Counter:
            return Counter(f"orrery_watchdog_{name}", means, ["action"], registry=registry)

        def gauge(name: str, means: str) -> Gauge:
            return Gauge(f"orrery_watchdog_{name}", means, ["action"], registry=registry)

        self.found = counter("found", "Rows that an action of the watchdog looked at because their time had come")
        self.done = counter("done", "Rows that an action of the watchdog changed or told of again")
        self.late_s = gauge("late_seconds", "By how much the last turn of an action came after its period")
        self.last_run_at = gauge("last_run_timestamp_seconds", "When an action last had its turn")
        self.period_s = gauge("period_seconds", "How often an action is to have its turn")
        self.seconds = Histogram(
            "orrery_watchdog_seconds", "Duration of one slice of an action", ["action"], registry=registry
        )


@dataclass
class Report:
    """What one run that was asked for found and did.

    A dry run does nothing, and says what another would do.
    """

    action: str
    dry_run: bool
    n_found: int = 0
    n_done: int = 0
    n_would_do: int = 0
    n_slices: int = 0
    seconds: float = 0.0
    more: bool = False
    did: list[dict[str, Any]] = field(default_factory=list)

    def add(self, looked: Looked, events: Sequence[Event]) -> None:
        """Count one slice, and keep what it said."""
        self.n_found += looked.n_found
        if self.dry_run:
            self.n_would_do += looked.n_done
        else:
            self.n_done += looked.n_done
        self.n_slices += 1
        self.more = looked.more
        self.did += said_by(events)

    def join(self, of_partition: Report) -> None:
        """Count what a partition did."""
        self.n_found += of_partition.n_found
        self.n_done += of_partition.n_done
        self.n_would_do += of_partition.n_would_do
        self.n_slices += of_partition.n_slices
        self.more = self.more or of_partition.more
        self.did += of_partition.did


class _RolledBack(Exception):
    """Ends a slice of a dry run."""


def said_by(events: Iterable[Event]) -> list[dict[str, Any]]:
    """Each event with the ids that it is about, and why, for people."""
    told = []
    for event in events:
        values = event.model_dump(mode="json", include={*_ABOUT, "reason", "command", "status"}, exclude_none=True)
        about = {name: value[:MOST_IDS] if isinstance(value, list) else value for name, value in values.items()}
        told.append({"event": type(event).__name__, **about})
    return told


class Actions:
    """All actions of the watchdog; `find` makes those of a run that is asked for, which remembers nothing."""

    def __init__(self, declared: Sequence[Action], parameters: Parameters, metrics: ActionMetrics) -> None:
        self.declared = {action.name: action for action in declared}
        self._parameters, self._metrics = parameters, metrics

    def period_s(self, action: Action) -> float:
        """How often it is to have its turn."""
        return action.period(self._parameters.filled(Periods))

    def periodic(self) -> list[Periodic]:
        """One loop and lease for each partition of each."""
        return [
            Periodic(
                action.name.replace("_", "-"), TICK_S, self._looping(part), partition=part.partition, rest=action.rest
            )
            for action in self.declared.values()
            for part in action.parts()
        ]

    def _looping(self, part: Part) -> Callable[[UnitOfWork], Awaitable[bool]]:
        async def run(work: UnitOfWork) -> bool:
            before = await SQL.value(work.connection, "last_turn", watch=part.watch)
            started = time.monotonic()
            looked = await part.run(work)
            seconds = time.monotonic() - started
            said = said_by(work.emitted)
            if looked.n_done or said:
                await _keep(work, part.watch, looked, said)
            at = await SQL.value(work.connection, "last_turn", watch=part.watch)

            def count() -> None:
                of, name, period_s = self._metrics, part.watch, self.period_s(part.action)
                of.found.labels(name).inc(looked.n_found)
                of.done.labels(name).inc(looked.n_done)
                of.period_s.labels(name).set(period_s)
                if at is not None:
                    of.last_run_at.labels(name).set(at.timestamp())
                if at != before:
                    of.seconds.labels(name).observe(seconds)
                    late_s = 0.0 if before is None or at is None else (at - before).total_seconds() - period_s
                    of.late_s.labels(name).set(max(0.0, late_s))

            work.after_commit(count)
            return looked.more

        return run

    async def run_now(self, database: Database, name: str, *, reason: str, dry_run: bool) -> Report:
        """Run an action before its period is over; of a dry run each slice is rolled back at once."""
        action, whole = self.declared[name], Report(name, dry_run)
        started = time.monotonic()
        most_slices = action.dry_slices if dry_run else MOST_SLICES
        for part in action.parts():
            report = Report(name, dry_run, more=True)
            while report.more and report.n_slices < most_slices and time.monotonic() - started < MOST_SECONDS:
                with suppress(_RolledBack):
                    async with database.begin(reason=reason) as work:
                        await self._slice_now(work, part, report)
            whole.join(report)
        whole.seconds = time.monotonic() - started
        return whole

    async def _slice_now(self, work: UnitOfWork, part: Part, report: Report) -> None:
        """Run one slice of a run that is asked for."""
        if report.n_slices == 0:
            await SQL.run(work.connection, "make_due", watch=part.watch, period_s=self.period_s(part.action))
        report.add(await part.run(work), work.emitted)
        if report.dry_run:
            raise _RolledBack
        if report.n_done or report.did:
            await _keep(work, part.watch, Looked(report.more, report.n_found, report.n_done), report.did)


async def _keep(work: UnitOfWork, name: str, looked: Looked, said: Sequence[Mapping[str, Any]]) -> None:
    """Keep what an action did last, for those who ask."""
    did = {"n_found": looked.n_found, "n_done": looked.n_done, "did": said[:20]}
    await SQL.run(work.connection, "keep_done", watch=name, last_done=did)
