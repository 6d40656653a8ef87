"""The system of the stories: one process with every service, the example grid, an issuer, and a pilot."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from deploy.local.ports import LOOPBACK, is_free
from services.cli.demo.examples import renamed
from tests.authlib_issuer import AuthlibIssuer, KnownClient, running
from tests.integration.cli.conftest import Orrery, load_world, run_orrery
from tests.integration.cli.test_live_system import TASKS
from tests.integration.one_process import one_process

CLIENT = "orrery-console"
#: who may sign in at the issuer
PEOPLE = {"ada": {"groups": ["atlas"]}, "otto": {"groups": ["atlas", "atlas/admins"]}}
ROLES = {"atlas/admins": ["operator"], "*": ["user"]}
WITHIN_S = 60.0


@dataclass(frozen=True)
class Stage:
    """What stories act on."""

    address: str
    orrery: Orrery
    issuer: AuthlibIssuer
    directory: Path
    environment: dict[str, str]

    def submit(self, index: int, name: str, **changes: object) -> int:
        """Submit an example under another name; its id."""
        path = self.directory / f"{name}.json"
        path.write_text(json.dumps(renamed(json.loads(TASKS[index].read_text()), name) | changes))
        outcome = self.orrery("submit", str(path), "--json")
        assert outcome.code == 0, outcome.out
        return int(outcome.json()[0]["task_id"])

    def wait_for(self, task_id: int, *statuses: str) -> dict[str, Any]:
        """Ask until the task is in one of these states."""
        return self.until(
            lambda: self.orrery("task", str(task_id), "--json").json(), lambda one: one["status"] in statuses
        )

    def jobs(self, task_id: int, status: str) -> list[dict[str, Any]]:
        """Ask until there are some in this state."""
        asked = ("jobs", "--task", str(task_id), "--status", status, "--json")
        return self.until(lambda: self.orrery(*asked).json(), bool)

    def until(self, ask: Callable[[], Any], is_right: Callable[[Any], bool]) -> Any:
        deadline = time.monotonic() + WITHIN_S
        while not is_right(found := ask()):
            assert time.monotonic() < deadline, found
            time.sleep(0.1)
        return found


class Pilot:
    """Takes jobs of a queue and reports them, as pilots do."""

    def __init__(self, stage: Stage) -> None:
        token = stage.orrery("token", "--role", "pilot", "--name", "pilot", "--json").json()["token"]
        headers = {"Authorization": f"Bearer {token}"}
        self._http = httpx.Client(
            base_url=f"{stage.address}/api/v1/pilot", headers=headers, trust_env=False, timeout=30
        )

    def take(self, queue: str, **wanted: object) -> dict[str, Any]:
        [job] = self._call("acquire_jobs", {"site_name": queue, "node": "node-1", **wanted})["jobs"]
        return dict(job)

    def report(self, job: dict[str, Any], status: str, **more: object) -> None:
        """Report an attempt; at the end with its files."""
        body = {"job_id": job["PandaID"], "job_status": status, "attempt_nr": job["attemptNr"], **more}
        if status == "finished":
            names = job["outFiles"].split(",")
            files = {lfn: {"guid": str(uuid.uuid4()), "fsize": 9, "adler32": "0123abcd"} for lfn in names}
            body["job_output_report"] = json.dumps(files)
        self._call("update_job", body)

    def _call(self, method: str, body: dict[str, Any]) -> Any:
        answer = self._http.post(method, json=body)
        assert answer.status_code == 200 and answer.json()["success"], answer.text
        return answer.json()["data"]


@contextmanager
def stage_in(directory: Path, database_url: str) -> Iterator[Stage]:
    """The running system with the example grid, as long as the block runs."""
    port = next(one for one in range(32_100, 32_700) if is_free(one))
    address = f"http://{LOOPBACK}:{port}"
    with running(PEOPLE) as issuer:
        issuer.clients.append(KnownClient(CLIENT, [f"{address}/console/sign-in/back"]))
        (directory / "identity.json").write_text(json.dumps(identity_of(issuer)))
        settings = {
            "ORRERY_HTTP_PORT": str(port),
            "ORRERY_IDENTITY_FILE": str(directory / "identity.json"),
            "ORRERY_CONSOLE_PUBLIC_URL": address,
            "ORRERY_CONSOLE_ISSUER": issuer.url,
            "ORRERY_CONSOLE_CLIENT_ID": CLIENT,
        }
        with one_process(directory, database_url, **settings) as environment:
            orrery = partial(run_orrery, environment)
            load_world(orrery)
            yield Stage(address, orrery, issuer, directory, environment)


def identity_of(issuer: AuthlibIssuer) -> dict[str, Any]:
    one = {"issuer": issuer.url, "audience": [CLIENT], "prefix": "iam:", "roles": ROLES}
    return {"issuers": [one]}
