"""The chapter "Backup and restore" of deploy/README, carried out with its own words on a system with work under way.

The services of each copy share one process, and both databases, which belong to an ordinary user, are on the server of
the tests. Everything else is as the chapter says: which programs are called in which order and with which options.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import httpx
import pytest
from prometheus_client import CollectorRegistry

from services.cli.demo.examples import renamed
from services.task_definition.app import build as build_task_definition
from shared.auth import Authority
from shared.cache import NullCache
from shared.config.settings import Settings
from shared.db import Database
from shared.db.migrate import LEFT_ALONE
from shared.runtime.service import Context
from tests import servers
from tests.applications import application_of
from tests.integration.cli.conftest import ROOT, Orrery, load_world, run_orrery

pytestmark = pytest.mark.timeout(300)
CHAPTER = "Backup and restore"
STATUS_WITHIN_S = 60.0
EXAMPLE = json.loads((ROOT / "deploy" / "examples" / "tasks" / "2_generation.json").read_text())
#: jobs of each task; pilots have these of the first before its database is copied
N_JOBS, N_TAKEN = 5, 3
SECRET = "a secret of the tests"


def blocks_of_chapter() -> tuple[str, str]:
    """The commands that make a backup, and those that restore one, as the chapter has them."""
    text = (ROOT / "deploy" / "README.md").read_text()
    chapter = text.split(f"## {CHAPTER}\n")[1].split("\n## ")[0]
    backup, restore = re.findall(r"```sh\n(.*?)```", chapter, re.DOTALL)
    return backup, restore


@dataclass(frozen=True)
class Place:
    """Stands for a clone: its `.local` is a directory of the test's, and its database is named."""

    local: Path
    database_url: str

    @property
    def environment(self) -> dict[str, str]:
        """Nothing of the system that the machine may have beside, and `orrery` on the path."""
        own = {key: value for key, value in os.environ.items() if not key.startswith("ORRERY_")}
        own["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), own.get("PATH", "")])
        named = {"ORRERY_DATABASE_URL": self.database_url, "ORRERY_RABBITMQ_URL": "", "ORRERY_REDIS_URL": ""}
        keys = {"ORRERY_TOKEN_KEY_FILE": str(self.local / "token_key.pem")}
        return own | named | keys | {"ORRERY_RUN_FILE": str(self.local / "run.json"), "PYTHONPATH": str(ROOT)}

    @property
    def orrery(self) -> Orrery:
        return partial(run_orrery, self.environment)

    def does(self, commands: str, *codes: int) -> str:
        """Run commands as somebody types them in this clone, up to the first that fails; what they print.

        `codes`: with which the last may end besides 0.
        """
        options = f"--embedded --directory {self.local}"
        text = commands.replace("-m deploy.local servers", f"-m deploy.local servers {options}")
        text = text.replace("make up", f'make --silent --directory {ROOT} up ARGS="--volatile {options}"')
        text = re.sub(r"(?<=\s)\.local(?=\s|$)", str(self.local), text, flags=re.MULTILINE)
        text = text.replace(".venv/bin/python", sys.executable)
        done = subprocess.run(
            ["sh", "-ec", text],
            cwd=self.local.parent, env=self.environment, capture_output=True, text=True, timeout=200, check=False,
        )  # fmt: skip
        assert done.returncode in (0, *codes), f"{text}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout

    def stop(self) -> None:
        command = [sys.executable, "-m", "deploy.local", "down", "--directory", str(self.local)]
        subprocess.run(command, cwd=ROOT, env=self.environment, check=True, capture_output=True)

    def rows(self, question: str) -> list[tuple[Any, ...]]:
        """Answer a question about the database."""

        async def answer() -> list[asyncpg.Record]:
            connection = await asyncpg.connect(self.database_url)
            try:
                return list(await connection.fetch(question))
            finally:
                await connection.close()

        return [tuple(row) for row in asyncio.run(answer())]


@pytest.fixture
def places(servers_of_tests: servers.Servers, tmp_path: Path) -> Iterator[tuple[Place, Place]]:
    """The machine that is copied, and the one that goes on; each has an empty database of an ordinary user."""
    url, name = servers_of_tests.database_url, f"orrery_test_{uuid.uuid4().hex[:12]}"
    databases = [f"{name}_{which}" for which in ("before", "after")]
    creating = [f"CREATE ROLE {name} LOGIN PASSWORD 'own'"]
    creating += [f"CREATE DATABASE {one} OWNER {name} TEMPLATE template0" for one in databases]
    found = []
    for number, one in enumerate(databases):
        address = urlsplit(servers.with_database(url, one))
        host = address.netloc.rpartition("@")[2]
        local = tmp_path / ("before", "after")[number] / "dot-local"
        local.parent.mkdir()
        found.append(Place(local, urlunsplit(address._replace(netloc=f"{name}:own@{host}"))))
    try:
        asyncio.run(_carry_out(url, creating))
        yield found[0], found[1]
    finally:
        for place in found:
            place.stop()
        dropping = [f"DROP DATABASE IF EXISTS {one} WITH (FORCE)" for one in databases]
        asyncio.run(_carry_out(url, [*dropping, f"DROP ROLE IF EXISTS {name}"]))


async def _carry_out(url: str, statements: list[str]) -> None:
    connection = await asyncpg.connect(url)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


def a_task(name: str) -> dict[str, Any]:
    return renamed(EXAMPLE, name) | {"nEvents": N_JOBS * 1000, "skipScout": True}


def submitted(place: Place, name: str) -> int:
    outcome = place.orrery("submit", "-", "--json", stdin=json.dumps(a_task(name)))
    assert outcome.code == 0, outcome.err
    return int(outcome.json()[0]["task_id"])


def wait_for(place: Place, question: str, *wanted: tuple[Any, ...]) -> None:
    """Ask until the rows are these."""
    deadline = time.monotonic() + STATUS_WITHIN_S
    while (found := place.rows(question)) != list(wanted):
        assert time.monotonic() < deadline, (question, found)
        time.sleep(0.2)


class Pilot:
    """One that took jobs from the system that is copied, and tells the one that goes on."""

    def __init__(self, place: Place) -> None:
        issued = place.orrery("token", "--role", "pilot", "--name", "restored", "--json")
        self._token = issued.json()["token"]

    def call(self, place: Place, method: str, body: dict[str, Any]) -> Any:
        run = json.loads((place.local / "run.json").read_text())
        answer = httpx.post(
            f"{run['urls']['job-dispatch'][0]}/api/v1/pilot/{method}",
            json=body, headers={"Authorization": f"Bearer {self._token}"}, trust_env=False, timeout=30,
        )  # fmt: skip
        assert answer.status_code == 200 and answer.json()["success"], answer.text
        return answer.json()["data"]

    def take(self, place: Place, queue: str) -> dict[str, Any]:
        [job] = self.call(place, "acquire_jobs", {"site_name": queue})["jobs"]
        return dict(job)

    def report(self, place: Place, job: dict[str, Any], status: str) -> str:
        """Report an attempt; at the end with its files. What the pilot is told."""
        body = {"job_id": job["PandaID"], "job_status": status, "attempt_nr": job["attemptNr"]}
        if status == "finished":
            names = job["outFiles"].split(",")
            files = {lfn: {"guid": str(uuid.uuid4()), "fsize": 9, "adler32": "0123abcd"} for lfn in names}
            body["job_output_report"] = json.dumps(files)
        return str(self.call(place, "update_job", body)["command"])


async def submit_unsent(place: Place, name: str) -> int:
    """Submit a task to a task definition that ends before it has told anybody."""
    authority = Authority.from_file(place.local / "token_key.pem")
    database = await Database.connect(place.database_url, actor="test")
    try:
        settings = Settings(database_url=place.database_url)
        service = build_task_definition(
            Context(
                database=database,
                cache=NullCache(),
                authority=authority,
                random=random.Random(1),
                settings=settings,
                metrics=CollectorRegistry(),
            )
        )
        transport = httpx.ASGITransport(app=application_of(service, authority))
        headers = {"Authorization": f"Bearer {authority.issue('operations', ['operator'])}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://one", headers=headers) as client:
            answer = await client.post("/api/v1/task/submit", json={"task_parameters": a_task(name)})
        assert answer.status_code == 200 and answer.json()["success"], answer.text
        return int(answer.json()["data"])
    finally:
        await database.close()


def test_a_system_that_was_restored_by_the_words_of_the_chapter_finishes_the_work_that_was_under_way(
    places: tuple[Place, Place],
) -> None:
    before, after = places
    backup, restore = blocks_of_chapter()
    before.does("make up")
    load_world(before.orrery)
    assert before.orrery("secrets", "set", "KEY", SECRET, "--vo", "atlas").code == 0
    running, paused, killed = (submitted(before, name) for name in ("running", "paused", "killed"))
    jobs = "SELECT status, count(*)::int FROM jobs WHERE task_id = {} GROUP BY 1 ORDER BY 1"
    for task_id in (running, paused, killed):
        wait_for(before, jobs.format(task_id), ("activated", N_JOBS))
    assert before.orrery("pause", str(paused)).code == 0 and before.orrery("kill", str(killed)).code == 0
    states = f"SELECT task_id, status FROM tasks WHERE task_id IN ({running}, {paused}, {killed}) ORDER BY 1"
    wait_for(before, states, (running, "running"), (paused, "paused"), (killed, "aborted"))
    pilot = Pilot(before)
    queues = [row[0] for row in before.rows(f"SELECT queue FROM jobs WHERE task_id = {running} ORDER BY job_id")]
    taken = [pilot.take(before, queue) for queue in queues[:N_TAKEN]]
    assert {int(job["taskID"]) for job in taken} == {running}
    for job in taken[1:]:
        pilot.report(before, job, "running")
    before.stop()
    unsent = asyncio.run(submit_unsent(before, "unsent"))

    before.does(f"cd {before.local.parent}\n{backup}")
    for name in ("orrery.dump", "keys.tar.gz"):
        (before.local.parent / name).rename(after.local.parent / name)
    copying, starting = restore.split("make up")
    after.does(copying)
    contents = [
        "SELECT task_id, status FROM tasks ORDER BY 1",
        "SELECT job_id, status, attempt_number, queue FROM jobs ORDER BY 1",
        "SELECT event_id, routing_key, body FROM outbox ORDER BY 1",
    ]
    assert [after.rows(one) for one in contents] == [before.rows(one) for one in contents]
    assert [key for _, key, _ in after.rows(contents[2])] == ["task.registered.v1"]
    migrated = after.orrery("migrate")
    assert (migrated.code, migrated.out) == (0, f"{LEFT_ALONE}\n"), migrated.err

    told = after.does(f"make up{starting}", 1)  # of `orrery status`: where jobs are, not every queue had a pilot
    assert "all invariants hold" in told and "0 not published yet, 0 tried again later, 0 put aside" in told, told
    commands = [pilot.report(after, job, "finished") for job in taken]
    assert commands == ["NULL"] * N_TAKEN
    assert after.orrery("resume", str(paused)).code == 0
    ends = f"SELECT task_id, status FROM tasks WHERE task_id IN ({running}, {paused}, {killed}, {unsent}) ORDER BY 1"
    after.does("orrery pilots --count 20 --speed-up 1e6 --duration-s 4")
    wait_for(after, ends, (running, "done"), (paused, "done"), (killed, "aborted"), (unsent, "done"))
    wait_for(after, "SELECT event_id FROM outbox")
    ended = "SELECT job_id, status FROM {} WHERE task_id = {}"
    found = after.rows(f"{ended.format('jobs', running)} UNION ALL {ended.format('jobs_archive', running)}")
    assert len(found) == N_JOBS and {(int(job["PandaID"]), "finished") for job in taken} <= set(found)
    checked = after.orrery("check")
    assert checked.code == 0, checked.out
    assert after.orrery("secrets", "add-key", str(after.local / "secrets.keys")).code == 0
    assert "1 secrets are encrypted" in (rotated := after.orrery("secrets", "rotate-key").out), rotated
