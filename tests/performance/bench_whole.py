"""Whole lives per second and what one costs, from the submission of tasks until they are done.

The tasks are analysis with input. Pilots of the published kind take, start and end one job with each call; 8 tasks and
100, with one, two and three replicas. Of each life: transactions, events, WAL, flushes, processor time by kind of
process; and what sessions waited for most. Besides, with one replica: pilots that call for a hundred jobs at once, and
how long one waits who is nearly alone. Each job must end finished, with its outputs registered and its files counted
once.

`python -m tests.performance.bench_whole [RUNS]`: medians of so many.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import httpx

from deploy.local.system import LocalSystem, running_system
from services.cli.demo.stage import addresses_of
from services.cli.tokens import issue
from tests.performance import http_load
from tests.performance.bench_acquire import request, server
from tests.performance.bench_latency import load_grid
from tests.performance.bench_lives import standing
from tests.performance.bulk_pilots import TOGETHER, BulkPilots
from tests.performance.field_calls import N_KINDS
from tests.performance.field_pilots import N_CALLS, ended, field_pilots
from tests.performance.figures import rate, times
from tests.performance.quiet_lives import keeps, quiet_lives
from tests.performance.sizes import exit_code, sized
from tests.performance.whole_costs import Costs, Watch
from tests.performance.whole_work import faults, submit

ROOT = Path(__file__).resolve().parents[2]
N_FILES = sized(12_000, 200)  # of all tasks
N_TASKS = (sized(8, 2), sized(100, 5))
REPLICAS = (1, 2, 3)[: sized(3, 1)]  # three show where scaling ends
N_RUNS = sized(3, 1)
N_PILOTS = sized(1_600, 40)
BARE_S, BARE_IN_FLIGHT = sized(3.0, 0.5), 64
FEWEST_PER_S, FEWEST_OF_TWO_REPLICAS, FEWEST_IN_BULK_PER_S = 500.0, 0.9, 2_000.0
MOST_TRANSACTIONS, MOST_WAL_KB, MOST_PROCESSOR_MS, MOST_OF_PILOTS_MS = 2.0, 12.0, 3.0, 0.5
_LIVE = "SELECT count(*) FROM jobs WHERE status NOT IN ('finished', 'failed', 'closed', 'cancelled')"
ACTIVATED_S, FINISHED_S, P99_S = 0.06, 0.05, 0.2


class NotAllWell(Exception):
    """The work did not come to its end, or not as it must; the text says how."""


@dataclass(frozen=True)
class World:
    """A system with its grid, and whom people and pilots are."""

    system: LocalSystem
    http: httpx.AsyncClient
    database: asyncpg.Connection
    pilots_token: str

    @classmethod
    @asynccontextmanager
    async def of(cls, system: LocalSystem) -> AsyncIterator[World]:
        addresses = addresses_of(system)
        headers = {"Authorization": f"Bearer {issue(addresses, 'benchmark', ['operator', 'production'])}"}
        pilots_token = issue(addresses, "pilots", ["pilot"], lifetime_s=86_400)
        database = await asyncpg.connect(system.environment["ORRERY_DATABASE_URL"])
        async with httpx.AsyncClient(headers=headers, trust_env=False, timeout=300) as http:
            await load_grid(system, http)
            if n_live := await database.fetchval(_LIVE):
                raise NotAllWell(f"{n_live} jobs of a benchmark that was interrupted are live; remove .local/bench")
            yield cls(system, http, database, pilots_token)
        await database.close()

    async def lives(self, n_tasks: int) -> Costs:
        """Of so many tasks with a pilot for each job, printed. Raises NotAllWell."""
        task_ids = await submit(self.system, self.http, n_tasks, N_FILES)
        urls = self.system.urls
        with field_pilots(urls["job-dispatch"], urls["job-brokerage"][0], self.pilots_token, N_PILOTS) as pilots:
            found = await self._watched(f"{n_tasks} tasks", task_ids, pilots.pid)
            told = await asyncio.to_thread(ended, pilots)
        print(*_told(told), sep="\n", flush=True)
        if told["outcomes"].get("finished", 0) < N_FILES or told["left"] or told["given_twice"]:
            raise NotAllWell(f"the pilots: {told}")
        return found

    async def bulk_per_s(self) -> float:
        """Lives of pilots that take and end a hundred jobs with each call. Raises NotAllWell."""
        task_ids = await submit(self.system, self.http, N_TASKS[0], N_FILES)
        url = self.system.environment["ORRERY_DATABASE_URL"]
        pilots = BulkPilots(self.system.urls["job-dispatch"][0], self.pilots_token, url)
        running = asyncio.create_task(pilots.run())
        try:
            found = await self._watched(f"{TOGETHER} with each call", task_ids, os.getpid())
        finally:
            running.cancel()
            await asyncio.wait([running])
            if not running.cancelled() and (error := running.exception()) is not None:
                raise error
        return found.per_s

    async def _watched(self, name: str, task_ids: list[int], pilots: int) -> Costs:
        """What lives cost, printed once all have ended well. Raises NotAllWell."""
        load = os.getloadavg()[0]
        watch = Watch(self.database, self.system.environment["ORRERY_DATABASE_URL"], task_ids, N_FILES)
        found = await watch.costs(self.system, pilots)
        if found is None:
            raise NotAllWell("\n".join(["stopped before its end:", *await standing(self.database, task_ids)]))
        if wrong := await faults(self.database, task_ids, N_FILES):
            raise NotAllWell(", ".join(wrong))
        waits = ", ".join(f"{name} {n}" for name, n in watch.waits.most_common(5))
        print(f"{rate(f'whole lives, {name}', found.per_s)}   (load {load:.1f} before)", *found.lines(), sep="\n")
        print(f"   sessions waited for: {waits or '-'}", flush=True)
        return found


def _told(told: dict[str, Any]) -> list[str]:
    """What pilots did, for people."""
    got, reported = ([f"{one * 1e3:.1f} ms" for one in told[name]] for name in ("get_job_s", "report_s"))
    others = {name: n for name, n in told["outcomes"].items() if name != "finished"} or "all calls were answered"
    return [
        f"   {told['busy']:.0%} of {N_PILOTS} pilots had a job, {told['waiting']:.0f} jobs waited on average",
        f"   median and p99 of getJob: {', '.join(got)}; of a report: {', '.join(reported)}; "
        f"no job was given for {told['nothing']}; {others}",
    ]


def bare_lives_per_s() -> float:
    """Lives if each of its calls were one to a handler that does nothing."""
    with server("bare") as (_, port):
        requests = [request("token", f"Q{number}", f"n{number}") for number in range(BARE_IN_FLIGHT)]
        return float(http_load.run(port, BARE_S, requests)["per_s"]) / N_CALLS


async def beside(system: LocalSystem) -> list[str]:
    """Few lives and lives in bulk, printed; the aims that were missed. Raises NotAllWell."""
    async with World.of(system) as world:
        activated, finished = await quiet_lives(system, world.http, world.pilots_token)
        print(times("10 lives/s: submission to first activated job", activated))
        print(times("10 lives/s: final report to finished job", finished), flush=True)
        bulk_per_s = await world.bulk_per_s()
    kept = {
        "submission to activated": keeps(activated, ACTIVATED_S, P99_S),
        "report to finished": keeps(finished, FINISHED_S, P99_S),
        "in bulk": bulk_per_s >= FEWEST_IN_BULK_PER_S,
    }
    return [name for name, is_kept in kept.items() if not is_kept]


async def runs_of(system: LocalSystem, n_runs: int) -> dict[int, Costs]:
    """By number of tasks the medians of some runs. Raises NotAllWell."""
    found: dict[int, list[Costs]] = defaultdict(list)
    async with World.of(system) as world:
        for _ in range(n_runs):
            for n_tasks in N_TASKS:
                found[n_tasks].append(await world.lives(n_tasks))
    return {n_tasks: Costs.median_of(runs) for n_tasks, runs in found.items()}


def main(n_runs: int = N_RUNS) -> int:
    """0 if all lives ended well and, in full size, the aims were kept."""
    bare, missed, one_replica = bare_lives_per_s(), list[str](), dict[int, float]()
    try:
        for n_replicas in REPLICAS:
            with running_system(ROOT / ".local" / "bench" / f"system-{n_replicas}", replicas=n_replicas) as system:
                print(f"   {n_replicas} replicas, {N_PILOTS} pilots of {min(N_KINDS, N_PILOTS)} kinds")
                found = asyncio.run(runs_of(system, n_runs if n_replicas < 3 else 1))
                missed += asyncio.run(beside(system)) if n_replicas == 1 else []
            for n_tasks, costs in found.items():
                name = f"whole lives, {n_tasks} tasks, {n_replicas} replicas, median"
                print(rate(name, costs.per_s, limit=bare, of=f"{N_CALLS} bare calls each"), flush=True)
                alone = one_replica.setdefault(n_tasks, costs.per_s)
                missed += [f"{name}: {one}" for one in _missed(costs, n_replicas, alone)]
    except NotAllWell as error:
        print(f"   NOT WELL: {error}")
        return 1
    print("   aims missed:", "; ".join(missed) or "none")
    return exit_code(not missed)


def _missed(found: Costs, n_replicas: int, alone_per_s: float) -> list[str]:
    """Which aims of a number of replicas are missed; three only show what becomes of the rate."""
    if n_replicas > 2:
        return []
    fewest = FEWEST_PER_S if n_replicas == 1 else FEWEST_OF_TWO_REPLICAS * alone_per_s
    kept = {
        f"{found.per_s:.0f} lives/s, at least {fewest:.0f}": found.per_s >= fewest,
        f"{found.transactions:.2f} transactions": found.transactions <= MOST_TRANSACTIONS,
        f"{found.wal_kb:.1f} kB of WAL": found.wal_kb <= MOST_WAL_KB,
        f"{found.own_ms:.2f} ms of processor": found.own_ms <= MOST_PROCESSOR_MS,
        f"{found.pilots_ms:.2f} ms of the pilots": found.pilots_ms <= MOST_OF_PILOTS_MS,
    }
    return [name for name, is_kept in kept.items() if not is_kept]


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
