"""All services in one process on a database of their own, and the command line in front of them."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from services.cli.app import main
from tests import servers
from tests.integration.one_process import ROOT
from tests.integration.one_process import one_process as system_in_one_process


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


Orrery = Callable[..., Outcome]


def run_orrery(environment: dict[str, str], *arguments: str, stdin: str = "", **variables: str) -> Outcome:
    """Run one command in this process: starting another one each time takes longer than the rest."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        for name, value in (environment | variables).items():
            patch.setenv(name, value)
        patch.setattr("sys.stdin", io.StringIO(stdin))
        try:
            main(arguments)
        except SystemExit as end:
            code = int(end.code or 0)
    return Outcome(code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def one_process(
    servers_of_tests: servers.Servers, database_template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """The environment in which the command line finds the running system."""
    url = asyncio.run(servers.clone_template(servers_of_tests.database_url, database_template))
    try:
        with system_in_one_process(tmp_path_factory.mktemp("system"), url) as environment:
            yield environment
    finally:
        asyncio.run(servers.drop_database(servers_of_tests.database_url, url))


@pytest.fixture(scope="module")
def orrery(one_process: dict[str, str]) -> Orrery:
    """Run one command as `orrery` does, for the running system."""
    return partial(run_orrery, one_process)


@pytest.fixture(scope="module")
def world(orrery: Orrery) -> None:
    """The example grid and catalogue; transfers that take minutes take less than a second, wherever jobs go."""
    load_world(orrery)


def load_world(orrery: Orrery) -> None:
    """Load the example grid and catalogue into an empty system."""
    examples = ROOT / "deploy" / "examples"
    assert orrery("grid", "load", str(examples / "grid")).code == 0
    for path in sorted((examples / "catalogue").glob("*.json")):
        assert orrery("catalogue", "import", str(path)).code == 0
    assert orrery("config", "set", "catalogue.TRANSFER_SPEED_UP", "1000").code == 0
