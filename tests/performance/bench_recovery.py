"""After a kill of a server: seconds until lives end at 95 % of their former rate, and the age of events in the outbox.

Pilots take, start and end one job with each call, from the first second to the last; RabbitMQ, Redis and PostgreSQL are
killed one after the other without warning, and started again by the supervisor. The outbox is looked at once the rate
had its 30 seconds: events that waited while there was no broker are older.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import asyncpg
import httpx

from deploy.local.system import LocalSystem, running_system
from services.cli.addresses import RUN_FILE_VARIABLE
from services.cli.demo.stage import addresses_of
from services.cli.tokens import issue
from tests.performance import bench_lives
from tests.performance.bench_latency import load_grid
from tests.performance.figures import percentile, rate
from tests.performance.sizes import exit_code, sized

ROOT = Path(__file__).resolve().parents[2]
DIRECTORY = ROOT / ".local" / "bench" / "recovery"
SERVERS = ("rabbitmq", "redis", "postgresql")[: sized(3, 1)]
N_PILOTS = sized(100, 10)
#: rounds of tasks that are submitted: more jobs than the pilots end meanwhile
N_ROUNDS = sized(8, 4)
WARM_S, BEFORE_S, AFTER_S = sized(20.0, 5.0), sized(20.0, 5.0), sized(60.0, 20.0)
#: the part of the former rate that is asked for, seconds until then, and the age of events afterwards
RECOVERED, WITHIN_S, MOST_AGE_S = 0.95, 30.0, 1.0
#: lives are counted in windows of so many seconds: results are applied in batches
WINDOW_S = 5.0
LOOK_EVERY_S = 0.25
_LOOK = """
SELECT (SELECT count(*) FROM jobs WHERE status = 'finished' AND results_applied_at IS NOT NULL)
     + (SELECT count(*) FROM jobs_archive WHERE status = 'finished') AS n_lives,
       (SELECT coalesce(extract(epoch FROM clock_timestamp() - min(created_at)), 0)::float8 FROM outbox) AS age_s
"""
Look = tuple[float, int, float]


class Watch:
    """Looks again and again, also after the database was away: the time, lives until then, age of the oldest event."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.looks: list[Look] = []

    async def look_on(self) -> None:
        """Until it is cancelled."""
        while True:
            try:
                connection = await asyncpg.connect(self._url, timeout=5)
                try:
                    while True:
                        row = await connection.fetchrow(_LOOK, timeout=5)
                        assert row is not None
                        self.looks.append((time.perf_counter(), row["n_lives"], row["age_s"]))
                        await asyncio.sleep(LOOK_EVERY_S)
                finally:
                    connection.terminate()
            except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
                await asyncio.sleep(LOOK_EVERY_S)

    def between(self, begin: float, end: float) -> list[Look]:
        return [one for one in self.looks if begin <= one[0] < end]

    def per_s(self, begin: float, end: float) -> float:
        """Lives per second."""
        found = self.between(begin, end)
        if len(found) < 2:
            return 0.0
        return (found[-1][1] - found[0][1]) / (found[-1][0] - found[0][0])

    def recovered_after_s(self, killed_at: float, wanted_per_s: float) -> float | None:
        """Seconds from a kill to the end of the first window in which so many lives ended; None: there was none."""
        for at, _, _ in self.between(killed_at + WINDOW_S, killed_at + AFTER_S):
            if self.per_s(at - WINDOW_S, at) >= wanted_per_s:
                return at - killed_at
        return None


async def kill(watch: Watch, system: LocalSystem, name: str) -> bool:
    """Kill a server once the rate before is known; whether everything recovered in time."""
    await asyncio.sleep(BEFORE_S)
    killed_at = time.perf_counter()
    former = watch.per_s(killed_at - BEFORE_S, killed_at)
    server = getattr(system.servers(), name)
    await asyncio.to_thread(server.kill9)
    await asyncio.sleep(AFTER_S)
    after_s = watch.recovered_after_s(killed_at, RECOVERED * former)
    ages: Sequence[float] = [
        age_s for _, _, age_s in watch.between(killed_at + min(WITHIN_S, AFTER_S / 2), sys.maxsize)
    ]
    age_s = percentile(ages, 0.99) if ages else float("inf")
    print(rate(f"{name} killed; full lives before", former))
    told = "never" if after_s is None else f"after {after_s:.1f} s"
    print(f"   {RECOVERED:.0%} of it again {told} (asked: {WITHIN_S:g} s); outbox from then on p99 {age_s:.2f} s old"
          f" (asked: under {MOST_AGE_S:g} s)", flush=True)  # fmt: skip
    return after_s is not None and after_s <= WITHIN_S and age_s < MOST_AGE_S


async def measure(system: LocalSystem) -> bool:
    """Print the figures; whether every server's kill was recovered from, and no job was lost."""
    token = issue(addresses_of(system), "benchmark", ["operator"])
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {token}"}, trust_env=False, timeout=60) as http:
        await load_grid(system, http)
        for _ in range(N_ROUNDS):
            await bench_lives.submit(system, http)
    arguments = ["-m", "services.cli", "pilots", "--count", str(N_PILOTS), "--speed-up", "1000000", "--json"]
    arguments += [part for kind in ("payload", "memory", "stage_out") for part in ("--failure", f"{kind}=0")]
    watch = Watch(system.environment["ORRERY_DATABASE_URL"])
    looking = asyncio.create_task(watch.look_on())
    try:
        with bench_lives.program(arguments, **{RUN_FILE_VARIABLE: str(system.directory / "run.json")}):
            await asyncio.sleep(WARM_S)
            return all([await kill(watch, system, name) for name in SERVERS])
    finally:
        looking.cancel()
        await asyncio.wait([looking])


def main() -> int:
    """0 if the work goes on in time after each kill."""
    shutil.rmtree(DIRECTORY, ignore_errors=True)
    with running_system(DIRECTORY, private_servers=True) as system:
        if system.one_process:
            print("   no RabbitMQ on this machine: the embedded system has no servers to kill one by one")
            return 0
        return exit_code(asyncio.run(measure(system)))


if __name__ == "__main__":
    sys.exit(main())
