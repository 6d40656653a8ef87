"""From submission to the first activated job on an idle system, beside the same number of bare hops.

A hop is what no design with transactions and a broker can do without: commit a row, publish a persistent message with
confirm to a quorum queue, receive it. The task is one that needs no input and no nucleus, so five events lie between
the submission and the activated job.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from pathlib import Path
from typing import Any

import aio_pika
import asyncpg
import httpx

from deploy.local.system import LocalSystem, running_system
from services.cli.demo.stage import addresses_of
from services.cli.tokens import issue
from shared.model.grid import read_grid_folder
from tests.performance.figures import percentile, times
from tests.performance.sizes import sized

ROOT = Path(__file__).resolve().parents[2]
N_SUBMISSIONS = sized(60, 5)
N_WARM_UP = sized(5, 1)
N_HOPS = 5
POLL_S = 0.002
TARGET_MS = 300
TIMEOUT_S = 20.0


def task_without_input(name: str, *, n_jobs: int = 1) -> dict[str, Any]:
    """A task of so many jobs that reads nothing and goes anywhere."""
    return {
        "taskName": name,
        "userName": "benchmark",
        "vo": "atlas",
        "prodSourceLabel": "user",
        "taskType": "anal",
        "processingType": "benchmark",
        "noInput": True,
        "nEvents": n_jobs,
        "nEventsPerJob": 1,
        "skipScout": True,
        "architecture": "",
        "transPath": "http://127.0.0.1/payload.sh",
        "coreCount": 1,
        "ramCount": 1000,
        "cpuTime": 1,
        "cpuTimeUnit": "HS06sPerEvent",
        "log": {
            "type": "template",
            "param_type": "log",
            "value": f"{name}.${{SN}}.log.tgz",
            "dataset": f"{name}.log",
        },
        "jobParameters": [
            {"type": "constant", "value": "--events 1"},
            {
                "type": "template",
                "param_type": "output",
                "value": f"--out={name}.${{SN}}.root",
                "dataset": f"{name}.out",
            },
        ],
    }


async def activation_times(system: LocalSystem, http: httpx.AsyncClient) -> list[float]:
    """Seconds from sending the task to the moment its first job can be seen as activated."""
    url = system.urls["task-definition"][0] + "/api/v1/task/submit"
    database = await asyncpg.connect(system.environment["ORRERY_DATABASE_URL"])
    found = []
    try:
        for _ in range(N_SUBMISSIONS + N_WARM_UP):
            name = f"user.benchmark.{uuid.uuid4().hex[:12]}"
            started = time.perf_counter()
            answer = (await http.post(url, json={"task_parameters": task_without_input(name)})).json()
            if not answer["success"]:
                raise SystemExit(f"a task was refused: {answer}")
            task_id = answer["data"] if isinstance(answer["data"], int) else answer["data"]["task_id"]
            await _first_activated(database, task_id, started)
            found.append(time.perf_counter() - started)
            await asyncio.sleep(0.05)  # idle again: this measures latency, not throughput
    finally:
        await database.close()
    return found[N_WARM_UP:]


async def _first_activated(database: asyncpg.Connection, task_id: int, started: float) -> None:
    query = "SELECT 1 FROM jobs WHERE task_id = $1 AND status = 'activated' LIMIT 1"
    while not await database.fetchval(query, task_id):
        if time.perf_counter() - started > TIMEOUT_S:
            row = await database.fetchrow("SELECT status, error_dialog FROM tasks WHERE task_id = $1", task_id)
            raise SystemExit(
                f"task {task_id} has no activated job after {TIMEOUT_S:.0f} s: {dict(row) if row else None}"
            )
        await asyncio.sleep(POLL_S)


async def bare_chains(system: LocalSystem) -> list[float]:
    """Seconds for a chain of hops without anything of ours."""
    environment = system.environment
    database = await asyncpg.connect(environment["ORRERY_DATABASE_URL"])
    broker = await aio_pika.connect(environment["ORRERY_RABBITMQ_URL"])
    queue_name = f"benchmark-{uuid.uuid4().hex[:12]}"
    try:
        await database.execute(f"CREATE TABLE IF NOT EXISTS {_table(queue_name)} (id bigserial PRIMARY KEY, body text)")
        channel = await broker.channel(publisher_confirms=True)
        queue = await channel.declare_queue(queue_name, durable=True, arguments={"x-queue-type": "quorum"})
        received: asyncio.Queue[aio_pika.abc.AbstractIncomingMessage] = asyncio.Queue()
        tag = await queue.consume(received.put)
        found = []
        for _ in range(N_SUBMISSIONS + N_WARM_UP):
            started = time.perf_counter()
            for _ in range(N_HOPS):
                await _hop(database, channel, queue_name, received)
            await database.execute(f"INSERT INTO {_table(queue_name)} (body) VALUES ('last')")
            found.append(time.perf_counter() - started)
        await queue.cancel(tag)
        await queue.delete(if_unused=False, if_empty=False)
        return found[N_WARM_UP:]
    finally:
        await database.execute(f"DROP TABLE IF EXISTS {_table(queue_name)}")
        await database.close()
        await broker.close()


def _table(queue_name: str) -> str:
    return queue_name.replace("-", "_")


async def _hop(
    database: asyncpg.Connection,
    channel: aio_pika.abc.AbstractChannel,
    queue_name: str,
    received: asyncio.Queue[aio_pika.abc.AbstractIncomingMessage],
) -> None:
    async with database.transaction():
        await database.execute(f"INSERT INTO {_table(queue_name)} (body) VALUES ('hop')")
    message = aio_pika.Message(b"{}", delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
    await channel.default_exchange.publish(message, queue_name, mandatory=True)
    await (await received.get()).ack()


async def load_grid(system: LocalSystem, http: httpx.AsyncClient) -> None:
    """The example grid: brokerage needs somewhere to send jobs."""
    body = {"files": read_grid_folder(ROOT / "deploy" / "examples" / "grid"), "keep_times": False}
    answer = await http.post(system.urls["job-brokerage"][0] + "/api/v1/grid/load", json=body, timeout=60)
    answer.raise_for_status()


async def measure(system: LocalSystem) -> None:
    """Print both figures."""
    token = issue(addresses_of(system), "benchmark", ["operator"])
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {token}"}, trust_env=False, timeout=30) as http:
        await load_grid(system, http)
        whole = await activation_times(system, http)
    bare = await bare_chains(system)
    print(times("submission to first activated job (HTTP included)", whole))
    print(times(f"{N_HOPS} bare hops: commit, confirmed publish, receive", bare))
    print(f"   {percentile(whole, 0.5) / percentile(bare, 0.5):.1f} times the bare chain; aim: {TARGET_MS} ms")


def main() -> None:
    with running_system(ROOT / ".local" / "bench" / "system") as system:
        if system.one_process:
            raise SystemExit("embedded: there is no RabbitMQ to compare with")
        asyncio.run(measure(system))


if __name__ == "__main__":
    main()
