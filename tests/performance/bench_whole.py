"""Whole lives per second, and what one costs: analysis tasks with input, from the submission to jobs that are counted,
with pilots that take, start and end one job with each call; 8 tasks and 100, with one and with two replicas.

Of each life: transactions, events, bytes of WAL, processor time by kind of process; and what sessions waited for most.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import httpx

from deploy.local.servers import processes_of
from deploy.local.system import LocalSystem, running_system
from services.cli.addresses import RUN_FILE_VARIABLE
from services.cli.demo.stage import addresses_of
from services.cli.tokens import issue
from tests.performance.bench_latency import load_grid, task_without_input
from tests.performance.bench_lives import program, standing
from tests.performance.figures import rate
from tests.performance.processor_time import Account, account
from tests.performance.sizes import exit_code, sized

ROOT = Path(__file__).resolve().parents[2]
N_FILES = sized(32_000, 400)  # in all
N_TASKS = (sized(8, 2), sized(100, 5))
REPLICAS = (1, 2)[: sized(2, 1)]
N_PILOTS = sized(800, 20)
FROM_FRACTION, TO_FRACTION = 0.15, 0.85
TIMEOUT_S, STILL_S = sized(600.0, 60.0), 60.0
LOOK_EVERY_S = 0.5
FEWEST_PER_S, FEWEST_OF_TWO_REPLICAS = 500.0, 0.9
MOST_TRANSACTIONS, MOST_WAL_KB, MOST_PROCESSOR_MS = 2.0, 12.0, 3.0
PLACES = ("CERN-PROD_DATADISK", "BNL-OSG2_DATADISK", "FZK-LCG2_DATADISK", "MWT2_DATADISK", "RAL-LCG2-ECHO_DATADISK")
_COUNTED = """
SELECT (SELECT count(*) FROM jobs WHERE task_id = ANY($1) AND status = 'finished' AND results_applied_at IS NOT NULL)
     + (SELECT count(*) FROM jobs_archive WHERE task_id = ANY($1) AND status = 'finished') AS n_lives,
       (SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()) AS n_transactions,
       pg_current_wal_lsn() - '0/0'::pg_lsn AS wal_bytes, (SELECT last_value FROM event_ids) AS n_events
"""
_WAITING = """
SELECT wait_event_type || ' ' || wait_event AS name, count(*) AS n FROM pg_stat_activity
WHERE datname = current_database() AND state = 'active' AND wait_event_type IN ('Lock', 'LWLock', 'IO') GROUP BY 1
"""


@dataclass(frozen=True)
class Counted:
    """What was counted until a moment, and the processor time of each kind of process."""

    at: float
    n_lives: int
    n_transactions: int
    wal_bytes: int
    n_events: int
    processors: Account


@dataclass(frozen=True)
class Costs:
    """Of one life; `per_s` lives."""

    per_s: float
    transactions: float
    wal_kb: float
    events: float
    processor_ms: dict[str, float]

    @classmethod
    def between(cls, before: Counted, after: Counted) -> Costs:
        n_lives = max(1, after.n_lives - before.n_lives)
        spent = after.processors.since(before.processors)
        kinds: Counter[str] = Counter()
        for name, seconds in spent.items():
            kinds["PostgreSQL" if name.startswith("PostgreSQL") else name] += seconds / n_lives * 1e3
        return cls(
            n_lives / max(after.at - before.at, 1e-3),
            (after.n_transactions - before.n_transactions) / n_lives,
            (after.wal_bytes - before.wal_bytes) / n_lives / 1e3,
            (after.n_events - before.n_events) / n_lives,
            dict(kinds),
        )

    @property
    def own_ms(self) -> float:
        """Processor time of the system: without pilots, and without what was idle or others'."""
        others = ("pilots", "idle", "stolen", "interrupts", "other processes")
        return sum(value for name, value in self.processor_ms.items() if name not in others)

    def lines(self) -> list[str]:
        """For people."""
        parts = [f"{name} {value:.2f}" for name, value in Counter(self.processor_ms).most_common() if value >= 0.005]
        return [
            f"   a life: {self.transactions:.2f} transactions, {self.events:.2f} events, {self.wal_kb:.1f} kB of WAL, "
            f"{self.own_ms:.1f} ms of processor time without pilots",
            f"   processor ms: {', '.join(parts)}",
        ]


def input_dataset(name: str, n_files: int) -> dict[str, Any]:
    """Files that some sites have."""
    series = {"lfn": f"{name}._{{serial:06d}}.root", "count": n_files, "size_bytes": 1_000_000, "n_events": 10}
    replicas = [{"storage": one} for one in PLACES]
    return {"scope": "mc23_13p6TeV", "name": name, "file_series": [series], "replicas": replicas}


def analysis_task(name: str, dataset: str) -> dict[str, Any]:
    """A task of one file a job, without scouts."""
    task = task_without_input(name)
    for field in ("noInput", "nEvents", "nEventsPerJob"):
        del task[field]
    read = {"type": "template", "param_type": "input", "value": '-i "${IN/T}"', "dataset": f"mc23_13p6TeV:{dataset}"}
    return task | {"nFilesPerJob": 1, "jobParameters": [*task["jobParameters"], read]}


async def submit(system: LocalSystem, http: httpx.AsyncClient, n_tasks: int) -> list[int]:
    """So many tasks, each with its part of the files."""
    names = [f"mc23_13p6TeV.{uuid.uuid4().hex[:12]}.DAOD_PHYSLITE.e1" for _ in range(n_tasks)]
    url = system.urls["task-definition"][0] + "/api/v1/"
    datasets = [input_dataset(name, N_FILES // n_tasks) for name in names]
    content = {"format": "orrery-catalogue/1", "vo": "atlas", "description": "benchmark", "datasets": datasets}
    await _post(http, url + "catalogue/import", content)
    found = []
    for name in names:
        task = analysis_task(f"user.benchmark.{uuid.uuid4().hex[:12]}", name)
        found.append(int(await _post(http, url + "task/submit", {"task_parameters": task})))
    return found


async def _post(http: httpx.AsyncClient, url: str, body: dict[str, Any]) -> Any:
    answer = (await http.post(url, json=body)).json()
    if not answer["success"]:
        raise SystemExit(f"{url} was refused: {answer}")
    return answer["data"]


def processes(system: LocalSystem, pilots: int) -> dict[str, Iterable[int]]:
    """Processes by what they are."""
    found: dict[str, Iterable[int]] = {"pilots": [pilots]}
    for service, urls in system.urls.items():
        copies = [system.process(service, number) for number in range(len(urls))]
        found[service] = [one.pid for one in copies if one is not None]
    servers = {**processes_of(ROOT / ".local" / "bench"), **processes_of(system.directory)}
    return found | {name: [process.pid] for name, process in servers.items() if name != "postgresql"}


class Watch:
    """Looks at the work until it is nearly done."""

    def __init__(self, database: asyncpg.Connection, url: str, task_ids: list[int]) -> None:
        self._database, self._url, self._task_ids = database, url, task_ids
        self.waits: Counter[str] = Counter()

    async def costs(self, system: LocalSystem, pilots: int) -> Costs | None:
        """Between two fractions of the work; None: it stopped before the second."""
        groups = processes(system, pilots)
        begun = last = time.perf_counter()
        first, n_before = None, 0
        while (now := time.perf_counter()) < begun + TIMEOUT_S and now < last + STILL_S:
            row = await self._database.fetchrow(_COUNTED, self._task_ids, timeout=60)
            assert row is not None
            n_lives = int(row["n_lives"])
            last = now if n_lives > n_before else last
            n_before = n_lives
            is_over = n_lives >= TO_FRACTION * N_FILES
            if is_over or (first is None and n_lives >= FROM_FRACTION * N_FILES):
                seen = Counted(now, *map(int, row), await account(self._url, **groups))
                if is_over:
                    return Costs.between(first or seen, seen)
                first = seen
            self.waits.update({row["name"]: row["n"] for row in await self._database.fetch(_WAITING)})
            await asyncio.sleep(LOOK_EVERY_S)
        return None


async def measure(system: LocalSystem, n_tasks: int) -> Costs | None:
    """Of one number of tasks, printed; None: the work came to no end."""
    token = issue(addresses_of(system), "benchmark", ["operator", "production"])
    url = system.environment["ORRERY_DATABASE_URL"]
    arguments = ["-m", "services.cli", "pilots", "--count", str(N_PILOTS), "--speed-up", "1000000", "--json"]
    arguments += [part for kind in ("payload", "memory", "stage_out") for part in ("--failure", f"{kind}=0")]
    database = await asyncpg.connect(url)
    try:
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(headers=headers, trust_env=False, timeout=300) as http:
            await load_grid(system, http)
            task_ids = await submit(system, http, n_tasks)
        watch = Watch(database, url, task_ids)
        with program(arguments, **{RUN_FILE_VARIABLE: str(system.directory / "run.json")}) as pilots:
            found = await watch.costs(system, pilots.pid)
            pilots.send_signal(signal.SIGTERM)
            pilots.communicate(timeout=60)
        if found is None:
            print("   the work stopped before its end:", *await standing(database, task_ids), sep="\n")
        else:
            print(*found.lines(), sep="\n")
            print("   sessions waited for:", ", ".join(f"{name} {n}" for name, n in watch.waits.most_common(5)) or "-")
    finally:
        await database.close()
    return found


def main() -> int:
    """0 if all work came to its end and, in full size, kept the aims."""
    kept, one_replica = True, dict[int, float]()
    for n_replicas in REPLICAS:
        with running_system(ROOT / ".local" / "bench" / f"system-{n_replicas}", replicas=n_replicas) as system:
            for n_tasks in N_TASKS:
                load = os.getloadavg()[0]
                found = asyncio.run(measure(system, n_tasks))
                if found is None:
                    return 1
                name = f"whole lives, {n_tasks} tasks, {n_replicas} replicas, {N_PILOTS} pilots"
                print(rate(name, found.per_s), f"  (load {load:.1f} before)", flush=True)
                one_replica.setdefault(n_tasks, found.per_s)
                kept = kept and _keeps(found, n_replicas, one_replica[n_tasks])
    return exit_code(kept)


def _keeps(found: Costs, n_replicas: int, alone_per_s: float) -> bool:
    """Whether the aims are kept: a rate, or with more replicas most of what one reaches, and the cost of a life."""
    fewest = FEWEST_PER_S if n_replicas == 1 else FEWEST_OF_TWO_REPLICAS * alone_per_s
    return (
        found.per_s >= fewest
        and found.transactions <= MOST_TRANSACTIONS
        and found.wal_kb <= MOST_WAL_KB
        and found.own_ms <= MOST_PROCESSOR_MS
    )


if __name__ == "__main__":
    sys.exit(main())
