"""Ranges of events acquired and reported over HTTP, beside what one UPDATE of bare rows takes in the same run.

Each of many running jobs has a file of its own in its own job set; its pilot takes ranges a hundred at a time and
reports them finished in one call, as published pilots do. The load generator, the server and PostgreSQL share the
machine.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

import asyncpg

from shared.auth import Authority
from shared.db.codecs import prepare_connection
from shared.states.event_range import CODES
from tests import servers
from tests.performance import http_load, processor_time
from tests.performance.acquire_world import fill
from tests.performance.bench_acquire import server
from tests.performance.figures import rate
from tests.performance.sizes import sized

N_JOBS = 64
RANGES_OF_CALL = 100
N_ROUNDS = sized(8, 2)
N_RANGES = N_ROUNDS * RANGES_OF_CALL
EVENTS_OF_RANGE, ATTEMPTS = 10, 10
TARGET_PER_S = 20_000
ACQUIRE_PATH, UPDATE_PATH = "/api/v1/event/acquire_event_ranges", "/api/v1/event/update_event_ranges"
FIRST_FILE, TASK = 1_000_000, 1


async def add_ranges(url: str) -> None:
    """Running jobs of one task, claimed by the pilot of this benchmark, each with a file in ranges."""
    connection = await asyncpg.connect(url)
    await prepare_connection(connection)
    await connection.execute("SET session_replication_role = replica")  # the way of these rows is not the subject
    await connection.execute("UPDATE jobs SET status = 'running', task_id = $1", TASK)
    await connection.execute(
        "INSERT INTO tasks (task_id, task_name, user_name, status) VALUES ($1, 'bench', 'alice', 'running')", TASK
    )
    await connection.execute(
        "INSERT INTO job_claims (request_key, job_id, subject) SELECT 'claim ' || job_id, job_id, 'bench' FROM jobs"
    )
    copy = connection.copy_records_to_table
    jobs = range(1, N_JOBS + 1)
    await copy(
        "job_sets",
        records=[(job, TASK, 1, "open", "normal", 1, N_RANGES, 1, N_RANGES, [], []) for job in jobs],
        columns=("job_set_id", "task_id", "chunk_id", "status", "kind", "n_files", "n_ranges", "n_consumers", "n_ready",
                 "serials", "queues"),
    )  # fmt: skip
    await copy(
        "job_set_jobs",
        records=[(job, job, TASK, "consumer", 1) for job in jobs],
        columns=("job_id", "job_set_id", "task_id", "role", "attempt"),
    )
    await copy(
        "task_files",
        records=[(FIRST_FILE + job, 1, TASK, f"EVNT.{job}", "a-b", "mc", "input", "running", job) for job in jobs],
        columns=("file_id", "dataset_id", "task_id", "lfn", "guid", "scope", "type", "status", "job_id"),
    )
    await copy(
        "job_files",
        records=[(job, FIRST_FILE + job, 1, TASK, "input", True) for job in jobs],
        columns=("job_id", "file_id", "dataset_id", "task_id", "type", "is_master"),
    )
    await copy(
        "event_ranges",
        records=[
            (TASK, 1, FIRST_FILE + job, number, (number - 1) * EVENTS_OF_RANGE + 1, number * EVENTS_OF_RANGE, ATTEMPTS,
             job)
            for job in jobs for number in range(1, N_RANGES + 1)
        ],
        columns=("task_id", "dataset_id", "file_id", "job_process_id", "def_min_event_id", "def_max_event_id",
                 "attempt_nr", "job_set_id"),
    )  # fmt: skip
    await connection.execute("VACUUM ANALYZE event_ranges")
    await connection.close()


def acquires(token: str) -> list[http_load.LoadRequest]:
    """One call of each job."""
    bodies = ({"job_id": job, "task_id": TASK, "n_ranges": RANGES_OF_CALL} for job in range(1, N_JOBS + 1))
    return [_post(ACQUIRE_PATH, token, body, f"-{RANGES_OF_CALL}-") for body in bodies]


def updates(token: str, number: int) -> list[http_load.LoadRequest]:
    """Reports of the ranges that each job took in its so manieth call."""
    found = []
    for job in range(1, N_JOBS + 1):
        first = number * RANGES_OF_CALL + 1
        names = (f"{TASK}-{job}-{FIRST_FILE + job}-{n}-{ATTEMPTS}" for n in range(first, first + RANGES_OF_CALL))
        ranges = [{"eventRangeID": one, "eventStatus": "finished"} for one in names]
        found.append(_post(UPDATE_PATH, token, {"event_ranges": ranges, "version": 0}, '"Returns":[true,true'))
    return found


def _post(path: str, token: str, body: Any, wanted: str) -> http_load.LoadRequest:
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    return http_load.post(path, headers, json.dumps(body), wanted)


async def update_limit(url: str) -> float:
    """Ranges per second of two sessions that change rows by key, as many at a time as a call; no index or trigger."""
    connection = await asyncpg.connect(url)
    await connection.execute("CREATE TABLE bare_ranges (id bigint PRIMARY KEY, status smallint, job_id int)")
    n_ranges = N_JOBS * N_RANGES
    await connection.execute("INSERT INTO bare_ranges SELECT n, 0, NULL FROM generate_series(1, $1::int) n", n_ranges)
    await connection.close()

    async def session(first: int) -> None:
        connection = await asyncpg.connect(url)
        for start in range(first, n_ranges + 1, 2 * RANGES_OF_CALL):
            await connection.execute(
                "UPDATE bare_ranges r SET status = 1, job_id = 1 FROM unnest($1::bigint[]) AS n (id)"
                " WHERE r.id = n.id AND r.status = 0",
                list(range(start, start + RANGES_OF_CALL)),
            )
        await connection.close()

    began = time.perf_counter()
    await asyncio.gather(session(1), session(1 + RANGES_OF_CALL))
    return n_ranges / (time.perf_counter() - began)


async def counted(url: str) -> dict[int, int]:
    """How many ranges are in each state."""
    connection = await asyncpg.connect(url)
    rows = await connection.fetch("SELECT status, count(*) AS n FROM event_ranges GROUP BY status")
    await connection.close()
    return {row["status"]: row["n"] for row in rows}


def measured(url: str, pid: int, port: int, rounds: list[list[http_load.LoadRequest]]) -> tuple[float, str]:
    """Ranges per second of these rounds, and microseconds of processor time for each."""
    before = asyncio.run(processor_time.account(url, server=[pid]))
    found = [http_load.run(port, 0, one) for one in rounds]
    spent = asyncio.run(processor_time.account(url, server=[pid])).since(before)
    n_ranges = sum(one["requests"] for one in found) * RANGES_OF_CALL
    shares = {name: spent[name] for name in spent if name == "server" or name.startswith("PostgreSQL")}
    return n_ranges / sum(one["seconds"] for one in found), processor_time.shares_of(shares, n_ranges)


def main() -> int:
    """0 if every range was taken and reported once. What the target is of, both together, is one after the other."""
    admin = servers.Servers.find().database_url
    url = asyncio.run(servers.clone_template(admin, asyncio.run(servers.ensure_template(admin))))
    authority = Authority.generate()
    token = authority.issue("bench", ["pilot"])
    try:
        asyncio.run(fill(url, N_JOBS))
        asyncio.run(add_ranges(url))
        limit = asyncio.run(update_limit(url))
        environment = {"ORRERY_DATABASE_URL": url, "ORRERY_TOKEN_KEY": authority.private_pem().decode()}
        with server("dispatch", **environment) as (pid, port):
            taken, of_taken = measured(url, pid, port, [acquires(token)] * N_ROUNDS)
            reported, of_reported = measured(url, pid, port, [updates(token, one) for one in range(N_ROUNDS)])
        states = asyncio.run(counted(url))
    finally:
        asyncio.run(servers.drop_database(admin, url))
    print(rate(f"rows changed by key, {RANGES_OF_CALL} at a time, 2 sessions", limit))
    print(rate(f"ranges acquired, {RANGES_OF_CALL} to a call", taken, limit=limit, of="it"))
    print(f"   us for each: {of_taken}")
    print(rate(f"ranges reported finished, {RANGES_OF_CALL} to a call", reported, limit=limit, of="it"))
    print(f"   us for each: {of_reported}")
    both = 1 / (1 / taken + 1 / reported)
    print(rate("ranges acquired and reported", both, limit=limit / 2, of="two such changes"))
    print(f"   the aim is {TARGET_PER_S:,}/s")
    return 0 if states == {CODES["finished"]: N_JOBS * N_RANGES} else 1


if __name__ == "__main__":
    sys.exit(main())
