"""The key that renews a pilot's token stands in the address, and in no log."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from deploy.local.ports import free_port
from deploy.local.services import RECORD_VARIABLE
from shared.auth import KEY_AUDIENCE, Authority
from tests import servers
from tests.integration.one_process import ROOT, address_of, one_process

PATHS = ("/server/panda/get_access_token", "/api/v1/creds/get_access_token")
#: found in no address of ours by chance
MARK = "kEyMaRk"


@contextlib.contextmanager
def running_gateway(directory: Path, service: str) -> Iterator[str]:
    """The address of a gateway before the system, which writes to gateway.log."""
    port = free_port()
    record = directory / "gateway.json"
    record.write_text(json.dumps({"urls": {"job-dispatch": [service], "task-definition": [service]}}))
    environment = {**os.environ, RECORD_VARIABLE: str(record), "ORRERY_HTTP_PORT": str(port), "PYTHONPATH": str(ROOT)}
    with (directory / "gateway.log").open("wb") as log:
        command = [sys.executable, "-X", "dev", "-m", "deploy.local.gateway"]
        process = subprocess.Popen(command, env=environment, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + 30
        while True:
            with contextlib.suppress(httpx.TransportError):
                httpx.get(f"http://127.0.0.1:{port}/livez", trust_env=False)
                break
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


def sent_raw(address: str, request: bytes) -> bytes:
    """What is answered to bytes that are no good HTTP."""
    parts = urlsplit(address)
    with socket.create_connection((parts.hostname, parts.port), timeout=10) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        with contextlib.suppress(ConnectionError):
            while part := connection.recv(65536):
                answer += part
        return answer


@pytest.mark.timeout(180)
def test_no_log_has_a_key_that_was_sent_in_an_address(
    servers_of_tests: servers.Servers, database_template: str, tmp_path: Path
) -> None:
    url = asyncio.run(servers.clone_template(servers_of_tests.database_url, database_template))
    try:
        with one_process(tmp_path, url, ORRERY_LOG_LEVEL="DEBUG") as environment:
            direct = address_of(environment)
            authority = Authority.from_file(tmp_path / "key.pem")
            good = authority.issue("pilot-1", ["pilot"], audience=KEY_AUDIENCE)
            no_pilot = authority.issue("ada", ["user"], audience=KEY_AUDIENCE)
            false = f"{good.rpartition('.')[0]}.{MARK}"
            keys = [good, no_pilot, false, MARK, f"{MARK}%00", f"{MARK}.{MARK}.{MARK}", MARK * 5000]
            answers = []
            with running_gateway(tmp_path, direct) as gateway:
                for address in (direct, gateway):
                    for path in PATHS:
                        for key in keys:
                            answers.append(httpx.get(f"{address}{path}?token_key={key}", trust_env=False))
                            answers.append(httpx.post(f"{address}{path}?token_key={key}", trust_env=False))
                        for end in (b" HTTP/9.9\r\n\r\n", b"\x01\x02 HTTP/1.1\r\nHost: x\r\n\r\n", b"\r\n", b""):
                            sent_raw(address, b"GET " + path.encode() + b"?token_key=" + MARK.encode() + end)
                assert httpx.get(f"{direct}/api/v1/system/is_alive", trust_env=False).is_success
            assert [one for one in answers if good in one.text or MARK in one.text] == []
            assert sum("userProxy" in one.text for one in answers) == 4, "each way gave a token for the good key"
        logs = {name: (tmp_path / name).read_text(errors="replace") for name in ("log", "gateway.log")}
        assert "job-dispatch" in logs["log"], "there is a log"
        secrets = (good, good.rpartition(".")[2], no_pilot, MARK)
        assert [(name, one) for name, text in logs.items() for one in secrets if one in text] == []
    finally:
        asyncio.run(servers.drop_database(servers_of_tests.database_url, url))
