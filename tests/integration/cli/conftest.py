"""All services in one process on a database of their own, and the command line in front of them."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from services.cli.app import main
from shared.auth import Authority
from tests import servers

ROOT = Path(__file__).resolve().parents[3]
START_TIMEOUT_S = 110.0


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


Orrery = Callable[..., Outcome]


@pytest.fixture(scope="module")
def one_process(
    servers_of_tests: servers.Servers, database_template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """The environment in which the command line finds the running system."""
    directory = tmp_path_factory.mktemp("system")
    url = asyncio.run(servers.clone_template(servers_of_tests.database_url, database_template))
    Authority.create_file(directory / "key.pem")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("ORRERY_")}
    environment |= {"ORRERY_DATABASE_URL": url, "ORRERY_TOKEN_KEY_FILE": str(directory / "key.pem")}
    environment |= {"ORRERY_HTTP_PORT": "0", "PYTHONPATH": str(ROOT)}
    log = directory / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "services.cli", "run", "--all"],
            env=environment,
            cwd=directory,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        address = _address(process, log)
        run = {"urls": {name: [address] for name in _SERVICES}, "token_key_file": str(directory / "key.pem")}
        (directory / "run.json").write_text(json.dumps(run))
        yield environment | {"ORRERY_RUN_FILE": str(directory / "run.json")}
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(60)
        asyncio.run(servers.drop_database(servers_of_tests.database_url, url))
    assert code == 0, f"SIGTERM must end it in good order:\n{log.read_text()[-2000:]}"


_SERVICES = (
    "task-definition", "task-brokerage", "job-generation", "job-brokerage", "job-dispatch", "watchdog",
    "jumbo-watchdog", "share-correction",
)  # fmt: skip


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    """Where it listens, from its log; waits until it is ready."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()
        for line in log.read_text().splitlines():
            if "listen together on " in line:
                address = line.rpartition(" ")[2]
                if httpx.get(f"{address}/readyz", trust_env=False).status_code == 200:
                    return address
        time.sleep(0.05)
    raise AssertionError(f"not ready:\n{log.read_text()}")


@pytest.fixture(scope="module")
def orrery(one_process: dict[str, str]) -> Orrery:
    """Run one command as `orrery` does, in this process: starting another one each time takes longer than the rest."""

    def run(*arguments: str, stdin: str = "", **variables: str) -> Outcome:
        out, err, code = io.StringIO(), io.StringIO(), 0
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            for name, value in (one_process | variables).items():
                patch.setenv(name, value)
            patch.setattr("sys.stdin", io.StringIO(stdin))
            try:
                main(arguments)
            except SystemExit as end:
                code = int(end.code or 0)
        return Outcome(code, out.getvalue(), err.getvalue())

    return run


@pytest.fixture(scope="module")
def world(orrery: Orrery) -> None:
    """The example grid and catalogue."""
    examples = ROOT / "deploy" / "examples"
    assert orrery("grid", "load", str(examples / "grid")).code == 0
    for path in sorted((examples / "catalogue").glob("*.json")):
        assert orrery("catalogue", "import", str(path)).code == 0
