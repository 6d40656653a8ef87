"""kill -9 of any one service, of RabbitMQ, of Redis, or a restart of PostgreSQL in the middle of the demonstration."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import pytest

from deploy.local.services import SERVICES
from deploy.local.system import LocalSystem
from tests.chaos.conftest import DemoOutcome, RunDemo

pytestmark = pytest.mark.chaos


def restarts(system: LocalSystem, service: str) -> int:
    """How often the copies of a service were started again."""
    return sum(one["restarts"] for one in system.record["processes"] if one["service"] == service)


def assert_ended_well(outcome: DemoOutcome) -> None:
    assert outcome.code == 0, f"{outcome.report.get('problems')}\n{outcome.lines}"
    assert outcome.report["problems"] == []
    assert {task["status"] for task in outcome.report["tasks"]} == {"done"}


#: every service is killed, of an odd number the first twice; a demonstration takes two kills, one soon after the other
PAIRS = tuple(zip_longest(SERVICES[::2], SERVICES[1::2], fillvalue=SERVICES[0]))


def one_of(cases: Sequence[Any]) -> list[Any]:
    """Each case is run by one of so many pushes."""
    return [pytest.param(*case, marks=pytest.mark.drawn(nth, len(cases))) for nth, case in enumerate(cases)]


@pytest.mark.parametrize(("first", "second"), one_of(PAIRS))
def test_killing_services_one_after_the_other_in_the_middle_changes_nothing_in_the_end(
    system: LocalSystem, demo: RunDemo, first: str, second: str
) -> None:
    before = {service: restarts(system, service) for service in (first, second)}
    outcome = demo(system, f"kill:{first}@0.25", f"kill:{second}@0.4")
    assert_ended_well(outcome)
    for service, count in before.items():
        assert restarts(system, service) > count, f"the kill of {service} must have hit"


@pytest.mark.parametrize("fault", one_of([["kill:rabbitmq"], ["kill:redis"], ["restart:postgresql"]]))
def test_a_server_that_goes_away_in_the_middle_changes_nothing_in_the_end(
    system: LocalSystem, demo: RunDemo, fault: str
) -> None:
    server = getattr(system.servers(), fault.partition(":")[2])
    before = server.identity
    outcome = demo(system, fault)
    assert_ended_well(outcome)
    after = getattr(system.servers(), fault.partition(":")[2]).identity
    assert after is not None and after != before, "another process serves now"
    system.wait_until_ready(timeout_s=60)


@pytest.mark.night
def test_two_copies_of_every_service_share_the_work(two_of_each: LocalSystem, demo: RunDemo) -> None:
    assert_ended_well(demo(two_of_each))


@pytest.mark.night
def test_killing_one_of_two_copies_of_every_service_changes_nothing_in_the_end(
    two_of_each: LocalSystem, demo: RunDemo
) -> None:
    assert_ended_well(demo(two_of_each, "kill:services"))
