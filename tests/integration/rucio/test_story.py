"""A task whose data is in Rucio, from its submission to its end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from rucio.client.client import Client

from shared.auth import Authority
from tests import servers
from tests.handlers.grids import small_grid
from tests.handlers.task_definition.world import production
from tests.integration.one_process import ROOT, address_of, one_process
from tests.integration.rucio.server import ACCOUNT, PASSWORD, USER, RucioServer

pytestmark = pytest.mark.timeout(300)
DONE_WITHIN_S, LOOK_EVERY_S = 120.0, 0.3
VO, INPUT, N_FILES = "demo", "mc.evnt", 4


class Story:
    """The running system, Rucio, and what Rucio's daemons would do."""

    def __init__(self, http: httpx.Client, client: Client, rucio: RucioServer) -> None:
        self.http, self.client, self.rucio = http, client, rucio
        self.seen: dict[str, dict[str, Any]] = {}
        self._of_others = {rule["id"] for rule in client.list_replication_rules()}

    def post(self, path: str, body: Any) -> Any:
        answer = self.http.post(f"/api/v1/{path}", json=body).json()
        assert answer["success"], answer
        return answer["data"]

    def get(self, path: str, **query: Any) -> Any:
        answer = self.http.get(f"/api/v1/{path}", params=query).json()
        assert answer["success"], answer
        return answer["data"]

    def let_data_arrive(self) -> None:
        """Transfers of every rule end, and the messages about rules are sent."""
        for rule in self.client.list_replication_rules():
            if rule["id"] not in self._of_others:
                self.seen[rule["id"]] = rule
            if rule["state"] == "REPLICATING":
                self.rucio.arrive(rule["id"])
        if messages := self.rucio.messages():
            self.post("catalogue/messages", [json.loads(one["body"]) for one in messages])

    def wait_until_done(self, task_id: int) -> None:
        deadline = time.monotonic() + DONE_WITHIN_S
        while (status := self.get("task/get_details", task_id=task_id)["status"]) != "done":
            assert status != "broken" and time.monotonic() < deadline, self.told(task_id)
            self.let_data_arrive()
            time.sleep(LOOK_EVERY_S)

    def wait_until_nothing_is_wanted(self) -> None:
        deadline = time.monotonic() + DONE_WITHIN_S
        while wanted := self.get("catalogue/requests"):
            assert time.monotonic() < deadline, wanted
            self.let_data_arrive()
            time.sleep(LOOK_EVERY_S)

    def told(self, task_id: int) -> str:
        return str(self.get("explain/task", task_id=task_id)["text"])


@pytest.fixture
def story(
    rucio: RucioServer, servers_of_tests: servers.Servers, database_template: str, tmp_path: Path
) -> Iterator[Story]:
    (tmp_path / "password").write_text(PASSWORD)
    (tmp_path / "catalogues.toml").write_text(
        f'[vo.{VO}]\nkind = "rucio"\nhost = "{rucio.host}"\naccount = "{ACCOUNT}"\ntransfer_scope = "orrery"\n'
        f'login = {{kind = "userpass", user_name = "{USER}", password_file = "{tmp_path / "password"}"}}\n'
    )
    credentials = {"username": USER, "password": PASSWORD}
    client = Client(
        rucio_host=rucio.host, auth_host=rucio.host, account=ACCOUNT, auth_type="userpass", creds=credentials
    )
    url = asyncio.run(servers.clone_template(servers_of_tests.database_url, database_template))
    try:
        with one_process(tmp_path, url, ORRERY_CATALOGUES_FILE=str(tmp_path / "catalogues.toml")) as environment:
            token = Authority.from_file(tmp_path / "key.pem").issue("tester", ["operator", "production"])
            headers = {"Authorization": f"Bearer {token}"}
            with httpx.Client(base_url=address_of(environment), headers=headers, trust_env=False, timeout=60) as http:
                found = Story(http, client, rucio)
                found.post("grid/load", {"files": grid(), "keep_times": False})
                with pilots_at(environment, "Q_GAMMA"):
                    yield found
    finally:
        asyncio.run(servers.drop_database(servers_of_tests.database_url, url))


def grid() -> dict[str, Any]:
    """Work is done at GAMMA alone, which has no data: everything that is read or written has to be moved."""
    files = small_grid()
    for name, queue in files["queues"].items():
        queue["status"] = "online" if name == "Q_GAMMA" else "offline"
    return files


@contextlib.contextmanager
def pilots_at(environment: dict[str, str], queue: str) -> Iterator[None]:
    command = ["pilots", "--count", "4", "--speed-up", "100000", "--queue", f"{queue}=4", "--json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "services.cli", *command],
        env=environment,
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)


def place_input(client: Client) -> None:
    client.add_dataset("mc", INPUT)
    files = [
        {
            "scope": "mc", "name": f"EVNT.{number}.root", "bytes": 1_000_000 + number, "adler32": "0000000a",
            "meta": {"guid": f"{number:032x}", "events": 1000},
        }
        for number in range(N_FILES)
    ]  # fmt: skip
    client.add_files_to_dataset("mc", INPUT, files, rse="ALPHA_DATADISK")
    client.close("mc", INPUT)


def test_a_task_reads_its_input_from_rucio_moves_it_by_rules_and_leaves_its_output_there(story: Story) -> None:
    client = story.client
    place_input(client)
    task = production("rucio", nFilesPerJob=2, skipScout=True, ramCount=100, coreCount=1, nucleus="ALPHA")
    task_id = int(story.post("task/submit", {"task_parameters": task}))
    story.wait_until_done(task_id)
    story.wait_until_nothing_is_wanted()
    # input: read from it, and brought to where the jobs ran by rules
    shown = story.get("catalogue/dataset", name=INPUT, include_files=True)
    assert {one["lfn"]: one["size_bytes"] for one in shown["files"]} == {
        one["name"]: one["bytes"] for one in client.list_files("mc", INPUT)
    }
    rules = list(story.seen.values())
    assert any(one["scope"] == "orrery" and one["rse_expression"] == "GAMMA_DATADISK" for one in rules)
    assert {one["activity"] for one in rules} == {"Production Input", "Production Output"}
    # output: files registered, datasets closed and kept where the task wants them
    nucleus = story.get("task/get_details", task_id=task_id)["nucleus"]
    for name in ("mc.rucio", "mc.rucio.log"):
        assert len(list(client.list_files("mc", name))) == N_FILES // 2
        assert client.get_did("mc", name)["open"] is False
        assert client.get_metadata("mc", name)["task_id"] == task_id
        kept = [one["rse_expression"] for one in client.list_did_rules("mc", name)]
        assert kept == [f"{nucleus}_DATADISK"]
        copies = {one["rse"]: one["available_length"] for one in client.list_dataset_replicas("mc", name, deep=True)}
        assert copies[f"{nucleus}_DATADISK"] == N_FILES // 2
    assert story.get("task/get_details", task_id=task_id)["status"] == "done"
