"""What the demonstration sets does not outlive it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from services.cli.addresses import Addresses
from services.cli.client import Client
from services.cli.demo.parameters import DESCRIPTION, parameters_set
from tests.unit.cli.fake_services import FakeServices, fake_services

Rows = dict[str, dict[str, Any]]


@pytest.fixture
def rows() -> Rows:
    """Parameters that are set: by name, value and description."""
    return {"watchdog.SWEEP_AGE_S": {"value": "90.0", "description": "slow disks"}}


@pytest.fixture
def services(rows: Rows) -> Iterator[FakeServices]:
    def name_of(asked: dict[str, Any]) -> str:
        return f"{asked['component']}.{asked['key']}"

    def answer(act: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], Any]:
        return lambda asked: (200, {"success": True, "message": "", "data": act(asked)})

    def put(asked: dict[str, Any]) -> None:
        rows[name_of(asked)] = {"value": asked["value"], "description": asked["description"]}

    with fake_services() as fake:
        fake.answers["config/get"] = answer(lambda asked: rows.get(name_of(asked)))
        fake.answers["config/set"] = answer(put)
        fake.answers["config/unset"] = answer(lambda asked: rows.pop(name_of(asked)) and None)
        yield fake


def client(services: FakeServices) -> Client:
    return Client(Addresses({"task_definition": (services.url,)}), token="t")


WANTED = {"watchdog.SWEEP_AGE_S": 2.0, "jobgen.THROTTLED_RETRY_S": 1.0}


@pytest.mark.parametrize("end", [None, KeyboardInterrupt, RuntimeError])
def test_parameters_apply_for_the_length_of_the_run_however_it_ends(
    services: FakeServices, rows: Rows, end: type[BaseException] | None
) -> None:
    before, said = dict(rows), list[str]()
    try:
        with parameters_set(client(services), WANTED, said.append):
            assert {name: float(row["value"]) for name, row in rows.items()} == WANTED
            if end is not None:
                raise end
    except (KeyboardInterrupt, RuntimeError):
        pass
    assert rows == before
    assert "watchdog.SWEEP_AGE_S = 2.0" in said[0] and len(said) == 1


def test_what_a_killed_run_left_behind_is_not_given_back(services: FakeServices, rows: Rows) -> None:
    rows["jobgen.THROTTLED_RETRY_S"] = {"value": "1.0", "description": DESCRIPTION}
    with parameters_set(client(services), WANTED, print):
        pass
    assert set(rows) == {"watchdog.SWEEP_AGE_S"}


def test_what_cannot_be_given_back_is_said_with_the_command_that_does_it(services: FakeServices, rows: Rows) -> None:
    said: list[str] = []
    with parameters_set(client(services), WANTED, said.append):
        services.says("config/unset", success=False, message="no")
    assert "orrery config set watchdog.SWEEP_AGE_S 90.0" in said[-1]
    assert "orrery config unset jobgen.THROTTLED_RETRY_S" in said[-1]
