"""What whole lives cost between two moments: transactions, events, WAL, flushes, processor time."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import asyncpg

from deploy.local.servers import processes_of
from deploy.local.system import LocalSystem
from tests.performance.processor_time import Account, account
from tests.performance.sizes import sized

ROOT = Path(__file__).resolve().parents[2]
FROM_FRACTION, TO_FRACTION = 0.15, 0.85
TIMEOUT_S, STILL_S = sized(600.0, 60.0), 60.0
LOOK_EVERY_S = sized(0.5, 0.1)
#: what the machine did otherwise, and pilots, which are no part of the system
_OTHERS = ("pilots", "idle", "stolen", "interrupts", "other processes")
_COUNTED = """
SELECT (SELECT count(*) FROM jobs WHERE task_id = ANY($1) AND status = 'finished' AND results_applied_at IS NOT NULL)
     + (SELECT count(*) FROM jobs_archive WHERE task_id = ANY($1) AND status = 'finished') AS n_lives,
       (SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()) AS n_transactions,
       pg_current_wal_lsn() - '0/0'::pg_lsn AS wal_bytes, (SELECT last_value FROM event_ids) AS n_events,
       (SELECT wal_sync FROM pg_stat_wal) AS n_flushes
"""
_WAITING = """
SELECT wait_event_type || ' ' || wait_event AS name, count(*) AS n FROM pg_stat_activity
WHERE datname = current_database() AND state = 'active' AND wait_event_type IN ('Lock', 'LWLock', 'IO') GROUP BY 1
"""


@dataclass(frozen=True)
class Counted:
    """What was counted until a moment, and the processor time of each kind of process."""

    at: float
    processors: Account
    n_lives: int
    n_transactions: int
    wal_bytes: int
    n_events: int
    n_flushes: int


@dataclass(frozen=True)
class Costs:
    """Of one life; `per_s` lives."""

    per_s: float
    transactions: float
    wal_kb: float
    events: float
    flushes: float
    processor_ms: dict[str, float]

    @classmethod
    def between(cls, before: Counted, after: Counted) -> Costs:
        n_lives = max(1, after.n_lives - before.n_lives)
        spent = after.processors.since(before.processors)
        kinds: dict[str, float] = defaultdict(float)
        for name, seconds in spent.items():
            kinds["PostgreSQL" if name.startswith("PostgreSQL") else name] += seconds / n_lives * 1e3
        return cls(
            n_lives / max(after.at - before.at, 1e-3),
            (after.n_transactions - before.n_transactions) / n_lives,
            (after.wal_bytes - before.wal_bytes) / n_lives / 1e3,
            (after.n_events - before.n_events) / n_lives,
            (after.n_flushes - before.n_flushes) / n_lives,
            dict(kinds),
        )

    @classmethod
    def median_of(cls, runs: Sequence[Costs]) -> Costs:
        """Each figure for itself."""
        names = [name for name in cls.__annotations__ if name != "processor_ms"]
        numbers = {name: median(getattr(one, name) for one in runs) for name in names}
        kinds = {name for one in runs for name in one.processor_ms}
        return cls(
            **numbers, processor_ms={name: median(one.processor_ms.get(name, 0.0) for one in runs) for name in kinds}
        )

    @property
    def own_ms(self) -> float:
        """Processor time of the system: without pilots, and without what was idle or others'."""
        return sum(value for name, value in self.processor_ms.items() if name not in _OTHERS)

    @property
    def pilots_ms(self) -> float:
        return self.processor_ms.get("pilots", 0.0)

    def lines(self) -> list[str]:
        """For people."""
        parts = [f"{name} {value:.2f}" for name, value in Counter(self.processor_ms).most_common() if value >= 0.005]
        return [
            f"   a life: {self.transactions:.2f} transactions, {self.events:.2f} events, {self.wal_kb:.1f} kB of WAL, "
            f"{self.flushes:.2f} flushes, {self.own_ms:.2f} ms of processor time, the pilots' {self.pilots_ms:.2f} ms",
            f"   processor ms: {', '.join(parts)}",
        ]


def _processes(system: LocalSystem, pilots: int) -> dict[str, Iterable[int]]:
    """Processes by what they are."""
    found: dict[str, Iterable[int]] = {"pilots": [pilots]}
    for service, urls in system.urls.items():
        copies = [system.process(service, number) for number in range(len(urls))]
        found[service] = [one.pid for one in copies if one is not None]
    servers = {**processes_of(ROOT / ".local" / "bench"), **processes_of(system.directory)}
    return found | {name: [process.pid] for name, process in servers.items() if name != "postgresql"}


class Watch:
    """Looks at the work of some tasks until it is done."""

    def __init__(self, database: asyncpg.Connection, url: str, task_ids: list[int], n_files: int) -> None:
        self._database, self._url, self._task_ids, self._n_files = database, url, task_ids, n_files
        self.waits: Counter[str] = Counter()

    async def costs(self, system: LocalSystem, pilots: int) -> Costs | None:
        """Between two fractions of the work, once all of it is done; None: it stopped before."""
        groups = _processes(system, pilots)
        begun = last = time.perf_counter()
        first, second, n_before = None, None, 0
        while (now := time.perf_counter()) < begun + TIMEOUT_S and now < last + STILL_S:
            row = await self._database.fetchrow(_COUNTED, self._task_ids, timeout=60)
            assert row is not None
            n_lives = int(row["n_lives"])
            last = now if n_lives > n_before else last
            n_before = n_lives
            is_late = second is None and n_lives >= TO_FRACTION * self._n_files
            if is_late or (first is None and n_lives >= FROM_FRACTION * self._n_files):
                seen = Counted(now, await account(self._url, **groups), *map(int, row))
                first, second = first or seen, seen if is_late else None
            if first and second and n_lives >= self._n_files:
                return Costs.between(first, second)
            self.waits.update({row["name"]: row["n"] for row in await self._database.fetch(_WAITING)})
            await asyncio.sleep(LOOK_EVERY_S)
        return None
