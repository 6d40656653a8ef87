"""Ten thousand pilots that connect at once, as after a restart of the service: each gets an answer.

On a busy machine some are told to come later; they do, as pilots do, until no job is left.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import asyncpg
import pytest

from deploy.local.gateway import RECORD_VARIABLE
from services.job_dispatch.environment import DispatchSettings
from shared.auth import Authority
from shared.web.file_limit import raise_file_limit
from tests.drawn import one_of_two
from tests.integration.job_dispatch.conftest import Served
from tests.performance import http_load
from tests.performance.processor_time import resident_mb

N_PILOTS, N_JOBS = 10_000, 3_000
#: what one waiting pilot may cost
MOST_KB_EACH = 64
#: the first answer of each is one round; after so many every job must have been handed out
MOST_ROUNDS = 10


@asynccontextmanager
async def gateway(url: str, folder: Path) -> AsyncIterator[int]:
    """The one address of all services, in a process of its own; its port."""
    record = folder / "run.json"
    record.write_text(json.dumps({"urls": {"job-dispatch": [url]}}))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    variables = {**os.environ, RECORD_VARIABLE: str(record), "ORRERY_HTTP_PORT": str(port)}
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "deploy.local.gateway", env=variables)
    try:
        async with asyncio.timeout(60):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                except OSError:
                    await asyncio.sleep(0.05)
                else:
                    writer.close()
                    break
        yield port
    finally:
        process.terminate()
        await process.wait()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("way", one_of_two("direct", "by the gateway"))
async def test_ten_thousand_pilots_at_once_are_all_answered(
    served: Served, authority: Authority, tmp_path: Path, way: str
) -> None:
    if raise_file_limit() < N_PILOTS + 500:
        pytest.skip("this system lets a process open too few files")
    await served.rows.jobs(N_JOBS)
    port, token = served.server.port, authority.issue("pilot-1", ["pilot"])
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    requests = [
        http_load.post(
            "/api/v1/pilot/acquire_jobs", headers, json.dumps({"site_name": "Q1", "node": f"n{number}"}), '"PandaID"'
        )
        for number in range(N_PILOTS)
    ]
    before_mb, n_jobs = resident_mb(0), 0
    async with AsyncExitStack() as stack:
        if way != "direct":
            port = await stack.enter_async_context(gateway(served.url, tmp_path))
        for _ in range(MOST_ROUNDS):
            found = await asyncio.to_thread(http_load.run, port, 0, requests)
            grown_mb = resident_mb(0) - before_mb
            print(f"{found}; {grown_mb:.0f} MB more")
            assert (found["requests"], found["lost"]) == (N_PILOTS, 0), found
            assert found["ok"] + found["later"] == N_PILOTS, found  # a job, none with a time to come again, or "later"
            assert grown_mb * 1024 < MOST_KB_EACH * N_PILOTS
            n_jobs += found["wanted"]
            if not found["later"]:
                break
    connection: asyncpg.Connection
    async with served.rows.database.read() as connection:
        sent = await connection.fetchval("SELECT count(*) FROM jobs WHERE status = 'sent'")
        claims = await connection.fetchval("SELECT count(DISTINCT job_id) FROM job_claims")
    assert n_jobs == sent == claims == N_JOBS


async def test_the_connections_of_claims_and_reads_are_open_before_the_first_pilot(served: Served) -> None:
    connection: asyncpg.Connection
    async with served.rows.database.read() as connection:
        rows = await connection.fetch(
            "SELECT application_name FROM pg_stat_activity WHERE datname = current_database() ORDER BY 1"
        )
    names = [row["application_name"].rpartition(" ")[2] for row in rows]
    settings = DispatchSettings.model_fields
    assert names.count("claims") == settings["claim_sessions"].default
    assert names.count("windows") == settings["read_sessions"].default
