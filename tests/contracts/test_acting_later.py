"""Handlers and periodic work that act for a person ask what that person may, on the day.

Statements that a route reaches in a person's own name (`-- done for:` SUBMITTING, WRITERS or OWN) are found from the
handlers of events and from periodic work too: each of these names the function by which it asks.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from services.cli.addresses import SERVICES
from shared.runtime.service import Context
from tests.contracts.reached import calls_of
from tests.contracts.test_asked_rules import rules_in

OF_A_PERSON = {"SUBMITTING", "WRITERS", "OWN"}
#: notes of what was done or refused, of whoever did it; the time that a task's own parameters name
NOTES = {"audit", "note_refused", "put_deadline"}
#: by which function the work asks, and what that function knows
ASKS = {
    # the scopes in which the submission was let through, and those of the task's owner
    ("task_definition", "TaskRegistered"): "task_as_writer",
    # the rights that whoever submitted the series has today, and whether the person it names was revoked
    ("task_definition", "periodic-tasks"): "right_lost",
}


def _work(context: Context) -> Iterator[tuple[tuple[str, str], Any]]:
    for name in SERVICES:
        service = importlib.import_module(f"services.{name}.app").build(context)
        yield from (((name, event.__name__), handler) for event, handler in service.work)
        yield from (((name, one.name), one.run) for one in service.periodic)


def for_a_person(statements: frozenset[tuple[Path, str]]) -> set[str]:
    return {name for path, name in statements if rules_in(path, name) & OF_A_PERSON} - NOTES


@pytest.fixture
def acting(context: Context) -> dict[tuple[str, str], tuple[set[str], frozenset[str]]]:
    """Of the work that acts for a person: its statements, and what it calls."""
    reached = {key: calls_of(run) for key, run in _work(context)}
    return {key: (found, calls) for key, (statements, calls) in reached.items() if (found := for_a_person(statements))}


async def test_work_that_acts_for_a_person_asks_what_they_may(
    acting: dict[tuple[str, str], tuple[set[str], frozenset[str]]],
) -> None:
    silent = {key: sorted(found) for key, (found, calls) in acting.items() if ASKS.get(key) not in calls}
    assert silent == {}, "ask what the person may on that day, and say in ASKS by which function"
    assert acting.keys() == ASKS.keys(), "what acts for nobody any more is declared no more"


async def test_statements_in_a_persons_name_are_found(
    acting: dict[tuple[str, str], tuple[set[str], frozenset[str]]],
) -> None:
    assert {"insert_task", "take_scopes"} <= acting["task_definition", "periodic-tasks"][0]
    assert acting["task_definition", "TaskRegistered"][0] == {"take_scopes"}
