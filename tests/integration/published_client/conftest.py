"""The services in one process with the example grid, simulated pilots, an issuer of tokens, and people."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from shared.auth import Authority
from shared.model.grid import read_grid_folder
from tests import servers
from tests.integration.one_process import ROOT, address_of, one_process
from tests.integration.published_client.issuer import running_issuer
from tests.integration.published_client.package import published_client
from tests.integration.published_client.person import Person
from tests.integration.published_client.tls_proxy import tls_proxy, write_certificate
from tests.integration.published_pilot.network import Outside
from tests.integration.published_source import NotHere
from tests.unit.auth.issuer_of_tests import Issuer

#: pilots are at the first queue only: tasks for the second wait
WORKING, WAITING = "CERN", "BNL-ATLAS"
STATUS_WITHIN_S = 120.0


@dataclass
class LiveSystem:
    """Everything that runs, as an operator and as people see it."""

    http: httpx.Client
    address: str
    environment: dict[str, str]
    issuer: Issuer
    client: Path
    directory: Path
    outside: Outside

    def get(self, path: str, **query: Any) -> Any:
        answer = self.http.get(f"/api/v1/{path}", params=query).json()
        assert answer["success"], answer
        return answer["data"]

    def post(self, path: str, body: dict[str, Any]) -> Any:
        answer = self.http.post(f"/api/v1/{path}", json=body).json()
        assert answer["success"], answer
        return answer["data"]

    def wait_for(self, task_id: int, *statuses: str) -> dict[str, Any]:
        """Details of the task, once it is in one of these states."""
        return self.wait_until(task_id, lambda details: details["status"] in statuses)

    def wait_until(self, task_id: int, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        deadline = time.monotonic() + STATUS_WITHIN_S
        while not holds(details := dict(self.get("task/get_details", task_id=task_id, include_parameters=True))):
            assert time.monotonic() < deadline, details
            time.sleep(0.2)
        return details

    def person(self, name: str, *groups: str, address: str | None = None, **credentials: str) -> Person:
        """With a token of the issuer, unless other credentials are given."""
        token = self.issuer.token(sub=name, preferred_username=name, name=f"{name} tester", groups=list(groups))
        own = {"PANDA_AUTH": "oidc", "PANDA_AUTH_VO": "atlas", "PANDA_AUTH_ID_TOKEN": token}
        there = address or self.address
        return Person(self.client, self.directory / name, there, credentials or own, self.outside.environment)


@pytest.fixture(scope="package")
def client_folder() -> Path:
    try:
        return published_client()
    except NotHere as error:
        pytest.skip(str(error))


@pytest.fixture(scope="package")
def system(
    client_folder: Path,
    servers_of_tests: servers.Servers,
    database_template: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[LiveSystem]:
    directory, outside = tmp_path_factory.mktemp("system"), Outside({})
    url = asyncio.run(servers.clone_template(servers_of_tests.database_url, database_template))
    try:
        with running_issuer() as issuer, outside.running():
            identity = directory / "identity.json"
            one = {"issuer": issuer.url, "audience": ["orrery"]}
            proxies = {"networks": ["127.0.0.1/32"], "prefix": "x509:", "common_names": True}
            identity.write_text(json.dumps({"issuers": [one], "proxies": proxies, "shares_names": True}))
            with one_process(directory, url, ORRERY_IDENTITY_FILE=str(identity)) as environment:
                address = address_of(environment)
                token = Authority.from_file(directory / "key.pem").issue("operations", ["operator"])
                headers = {"Authorization": f"Bearer {token}"}
                with httpx.Client(base_url=address, headers=headers, trust_env=False, timeout=60) as http:
                    people = tmp_path_factory.mktemp("people")
                    found = LiveSystem(http, address, environment, issuer, client_folder, people, outside)
                    examples = ROOT / "deploy" / "examples"
                    files = read_grid_folder(examples / "grid")
                    found.post("grid/load", {"files": files, "keep_times": False})
                    catalogue = json.loads((examples / "catalogue" / "catalogue.json").read_text())
                    found.post("catalogue/import", catalogue)
                    yield found
    finally:
        asyncio.run(servers.drop_database(servers_of_tests.database_url, url))


@pytest.fixture(scope="package")
def pilots(system: LiveSystem) -> Iterator[None]:
    """Simulated ones at one queue."""
    command = [sys.executable, "-m", "services.cli", "pilots", "--count", "3", "--queue", f"{WORKING}=3"]
    with subprocess.Popen(
        command, env=system.environment | {"PATH": os.environ["PATH"]}, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, start_new_session=True,
    ) as process:  # fmt: skip
        yield
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(30)


@pytest.fixture(scope="package")
def ada(system: LiveSystem) -> Person:
    return system.person("ada", "atlas")


@pytest.fixture(scope="package")
def by_certificate(system: LiveSystem) -> Iterator[Person]:
    """A person without a token: with the certificate that a TLS proxy verifies."""
    directory = system.directory / "certificates"
    directory.mkdir()
    holder = write_certificate(directory / "grace.pem", "grace")
    with tls_proxy(directory, system.address, holder) as address:
        own = {"PANDA_AUTH": "x509_no_grid", "PANDA_NICKNAME": "grace", "X509_USER_PROXY": str(holder)}
        yield system.person("grace", address=address, PANDA_VERIFY_HOST="off", **own)
