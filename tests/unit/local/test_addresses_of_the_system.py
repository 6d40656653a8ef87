"""Where the gateway of `make up` listens, and where Prometheus finds the copies of services."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deploy.local.errors import LocalError
from deploy.local.scraping import write_targets
from deploy.local.servers import ServerAddresses
from deploy.local.services import GATEWAY, Copy, environment_of, gateway_port

ADDRESSES = ServerAddresses("postgresql://h/d", None, None)


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ORRERY_GATEWAY_HOST", "ORRERY_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)


def host_of(service: str, directory: Path) -> str:
    return environment_of(Copy(service, 0, 1), ADDRESSES, directory)["ORRERY_HTTP_HOST"]


def test_other_machines_reach_the_gateway_only_where_that_is_asked_for_and_never_a_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert host_of(GATEWAY, tmp_path) == host_of("watchdog", tmp_path) == "127.0.0.1" and gateway_port() is None
    monkeypatch.setenv("ORRERY_GATEWAY_HOST", "0.0.0.0")
    monkeypatch.setenv("ORRERY_GATEWAY_PORT", "8080")
    assert host_of(GATEWAY, tmp_path) == "0.0.0.0" and host_of("watchdog", tmp_path) == "127.0.0.1"
    assert gateway_port() == 8080


@pytest.mark.parametrize(("name", "value"), [("HOST", "10.0.0.1"), ("PORT", "http"), ("PORT", "70000"), ("PORT", "0")])
def test_an_address_that_cannot_be_is_refused_with_what_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(f"ORRERY_GATEWAY_{name}", value)
    with pytest.raises(LocalError, match=f"ORRERY_GATEWAY_{name}='{value}': allowed are"):
        host_of(GATEWAY, tmp_path) if name == "HOST" else gateway_port()


def test_each_copy_of_a_service_is_a_target_under_the_name_of_its_service(tmp_path: Path) -> None:
    path = tmp_path / "targets.json"
    write_targets(path, [Copy("watchdog", 0, 20001), Copy("watchdog", 1, 20002), Copy(GATEWAY, 0, 20003)])
    assert json.loads(path.read_text()) == [
        {"targets": ["127.0.0.1:20001"], "labels": {"service": "watchdog", "copy": "watchdog-0"}},
        {"targets": ["127.0.0.1:20002"], "labels": {"service": "watchdog", "copy": "watchdog-1"}},
    ]
    assert list(tmp_path.iterdir()) == [path]


def test_the_console_asks_the_gateway_and_seals_with_the_keys_of_this_system(tmp_path: Path) -> None:
    given = environment_of(Copy("console", 0, 1), ADDRESSES, tmp_path, "http://127.0.0.1:2")
    assert given["ORRERY_API_URL"] == "http://127.0.0.1:2"
    assert given["ORRERY_CONSOLE_KEY_FILE"] == str(tmp_path / "console.keys")
    assert "ORRERY_API_URL" not in environment_of(Copy("orrery", 0, 1), ADDRESSES, tmp_path, "http://127.0.0.1:1")
