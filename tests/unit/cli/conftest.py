"""The command line against fake services: `orrery(...)` runs one command and gives its exit code and output."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from services.cli.addresses import SERVICES, variable_of
from services.cli.app import main
from tests.unit.cli.fake_services import FakeServices, fake_services


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def no_login(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where whoever runs the tests is logged in is no concern of theirs."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))


@pytest.fixture
def services(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeServices]:
    with fake_services() as fake:
        for service in SERVICES:
            monkeypatch.setenv(variable_of(service), fake.url)
        monkeypatch.setenv("ORRERY_TOKEN", "a-token")
        yield fake


@pytest.fixture
def orrery(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Outcome]:
    monkeypatch.delenv("COLUMNS", raising=False)

    def run(*arguments: str, stdin: str = "") -> Outcome:
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        capsys.readouterr()
        code = 0
        try:
            main(arguments)
        except SystemExit as end:
            code = int(end.code or 0)
        out, err = capsys.readouterr()
        return Outcome(code, out, err)

    return run
