"""The services in one process with the example grid, and a published pilot at each queue that a test names."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from shared.auth import Authority
from tests import servers
from tests.integration.one_process import address_of, one_process
from tests.integration.published_pilot import events, world
from tests.integration.published_pilot.network import Outside
from tests.integration.published_pilot.package import published_pilot
from tests.integration.published_pilot.run import Launcher, Pilot
from tests.integration.published_source import NotHere
from tests.relay import Relay

#: what the payload does at each queue
WORK = {"PILOT_FINISHED": "work", "PILOT_FAILED": "fail", "PILOT_KILLED": "wait", "PILOT_OUTAGE": "wait"}
#: no pilot is at the last; those at the one before run what prun sent
QUEUES = [*WORK, world.PRUN_QUEUE, world.EVENTS_QUEUE, world.QUEUE_WITH_LOG, "PILOT_SPECIFICATION"]
#: a pilot waits for two minutes before it reports a failure; 3.11.5.1 does so of a job that was killed, too
STATUS_WITHIN_S = 240.0


@dataclass
class Story:
    """One pilot, the task that it works for, and the folder in which its payload and the test meet."""

    task_id: int
    job_id: int
    folder: Path
    pilot: Pilot


@dataclass
class System:
    """Everything that runs, and the calls of its people."""

    http: httpx.Client
    directory: Path
    storages: Path
    database: Relay
    outside: Outside
    launcher: Launcher

    def post(self, path: str, body: dict[str, Any]) -> Any:
        answer = self.http.post(f"/api/v1/{path}", json=body).json()
        assert answer["success"], answer
        return answer["data"]

    def get(self, path: str, **query: Any) -> Any:
        answer = self.http.get(f"/api/v1/{path}", params=query).json()
        assert answer["success"], answer
        return answer["data"]

    def job(self, job_id: int) -> dict[str, Any]:
        return dict(self.get("job/get_description_incl_archive", job_ids=job_id)[0])

    def wait_for(self, job_id: int, *statuses: str) -> dict[str, Any]:
        """The job, once it is in one of these states."""
        deadline = time.monotonic() + STATUS_WITHIN_S
        while (job := self.job(job_id))["status"] not in statuses:
            assert time.monotonic() < deadline, job
            time.sleep(0.2)
        return job

    def submit(self, task: dict[str, Any]) -> tuple[int, int]:
        """The id of the task and of its job, which pilots may take."""
        task_id = int(self.post("task/submit", {"task_parameters": task}))
        return task_id, self.activated(task_id)

    def activated(self, task_id: int) -> int:
        """The one job of a task that pilots may take, once there is one."""
        deadline = time.monotonic() + STATUS_WITHIN_S
        while not (jobs := self.get("job/list", task_id=task_id, status="activated")):
            assert time.monotonic() < deadline, self.get("task/get_details", task_id=task_id)
            time.sleep(0.2)
        [job] = jobs
        return int(job["job_id"])

    def give_keys(self) -> None:
        """Let pilots have the key of the object store."""
        (folder := self.directory / "key_pairs").mkdir()
        for name, half in events.KEYS.items():
            (folder / name).write_text(half)
        value = {name: [events.PILOTS] for name in events.KEYS}
        said = {"component": "job_dispatch", "key": "KEY_PAIR_RECIPIENTS", "value": value, "type": "json"}
        self.post("config/set", said)


@pytest.fixture(scope="package")
def pilot_folder() -> Path:
    try:
        return published_pilot()
    except NotHere as error:
        pytest.skip(str(error))


@pytest.fixture(scope="package")
def system(
    pilot_folder: Path,
    servers_of_tests: servers.Servers,
    database_template: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[System]:
    directory = tmp_path_factory.mktemp("system")
    storages = tmp_path_factory.mktemp("storages")
    url = asyncio.run(servers.clone_template(servers_of_tests.database_url, database_template))
    outside = Outside(world.PAGES)
    try:
        with (
            Relay(url).running() as relay,
            outside.running(),
            one_process(directory, relay.url, ORRERY_CREDENTIALS_DIRECTORY=str(directory)) as environment,
        ):
            address = address_of(environment)
            authority = Authority.from_file(directory / "key.pem")
            headers = {"Authorization": f"Bearer {authority.issue('tester', ['operator', 'production'])}"}
            with httpx.Client(base_url=address, headers=headers, trust_env=False, timeout=60) as http:
                launcher = Launcher(pilot_folder, address, authority.issue(events.PILOTS, ["pilot"]), storages, outside)
                found = System(http, directory, storages, relay, outside, launcher)
                found.post("grid/load", {"files": world.grid(storages, QUEUES), "keep_times": False})
                found.post("catalogue/import", world.place_input(storages))
                found.post("creds/set_user_secrets", {"key": "LOGIN", "value": 'a "secret"', "vo": "atlas"})
                found.give_keys()
                yield found
    finally:
        asyncio.run(servers.drop_database(servers_of_tests.database_url, url))


@pytest.fixture(scope="package")
def stories(system: System, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Story]]:
    """A pilot at each queue, all begun at once: each waits for minutes, most of them for itself."""
    directory = tmp_path_factory.mktemp("pilots")
    found: dict[str, Story] = {}
    try:
        for queue, how in WORK.items():
            folder = directory / f"{queue}.payload"
            folder.mkdir()
            is_first = queue == QUEUES[0]
            task = world.task(queue, how, folder, has_input=is_first, useSecrets=is_first)
            task_id, job_id = system.submit(task)
            worker = {"HARVESTER_ID": "factory-1", "HARVESTER_WORKER_ID": "7"} if is_first else {}
            pilot = system.launcher.start(queue, directory / queue, **worker)
            found[queue] = Story(task_id, job_id, folder, pilot)
        queue = world.QUEUE_WITH_LOG
        (store := directory / "store").mkdir()
        task_id, job_id = system.submit(events.task(queue, has_log=True))
        pilot = system.launcher.start(queue, directory / queue, **events.node(store))
        found[queue] = Story(task_id, job_id, store, pilot)
        yield found
    finally:
        for story in found.values():
            story.pilot.end()
