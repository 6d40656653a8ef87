"""All services in one process (`orrery run --all`) for the length of a block, on a database of the test's own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from services.cli.addresses import RUN_FILE_VARIABLE, SERVICES
from shared.auth import Authority
from shared.auth.keyring import create_key_file
from shared.signed_sources.keys import create_file as create_source_key

ROOT = Path(__file__).resolve().parents[2]
START_TIMEOUT_S = 110.0


@contextmanager
def one_process(directory: Path, database_url: str, **variables: str) -> Iterator[dict[str, str]]:
    """The environment in which the command line finds the running system; SIGTERM must end it in good order.

    `variables` are settings beside those that every system needs.
    """
    Authority.create_file(directory / "key.pem")
    create_key_file(directory / "secrets.keys")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("ORRERY_")}
    environment |= {"ORRERY_DATABASE_URL": database_url, "ORRERY_TOKEN_KEY_FILE": str(directory / "key.pem")}
    environment |= {"ORRERY_SECRETS_KEY_FILE": str(directory / "secrets.keys")}
    create_source_key(directory / "source_key")
    environment |= {"ORRERY_SOURCE_KEY_FILE": str(directory / "source_key")}
    environment |= {"ORRERY_HTTP_PORT": "0", "PYTHONPATH": str(ROOT), **variables}
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
        names = [name.replace("_", "-") for name in SERVICES]
        run = {"urls": {name: [address] for name in names}, "token_key_file": str(directory / "key.pem")}
        (directory / "run.json").write_text(json.dumps(run))
        yield environment | {RUN_FILE_VARIABLE: str(directory / "run.json")}
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(60)
    assert code == 0, f"SIGTERM must end it in good order:\n{log.read_text()[-2000:]}"


def address_of(environment: dict[str, str]) -> str:
    """The one address of the system that this environment is for."""
    run = json.loads(Path(environment[RUN_FILE_VARIABLE]).read_text())
    return str(run["urls"]["job-dispatch"][0])


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
