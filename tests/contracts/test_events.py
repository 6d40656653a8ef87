"""The catalogue of events is what the services do: subscriptions and emissions, read from the code itself."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections import defaultdict

import pytest

from shared import events
from shared.events import BY_ROUTING_KEY, ENTRIES, Event
from shared.runtime.service import Context, Service
from tests.contracts.sql_writes import ROOT, SERVICES

EVENT_CLASSES = {
    name: value
    for name, value in vars(events).items()
    if inspect.isclass(value) and issubclass(value, Event) and value not in (Event, events.JobsEvent, events.TaskEvent)
}


def emitted_classes(service: str) -> set[str]:
    """Event classes that the service's code constructs (policies and tests of plugins left out)."""
    found = set()
    for path in sorted((ROOT / "services" / service).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
                if name in EVENT_CLASSES:
                    found.add(name)
    return found


def named_classes(service: str) -> set[str]:
    """Event classes that the service's code names at all: classes may be called through a variable."""
    found = set()
    for path in sorted((ROOT / "services" / service).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")
            if name in EVENT_CLASSES:
                found.add(name)
    return found


@pytest.fixture(params=SERVICES)
def built(request: pytest.FixtureRequest, context: Context) -> tuple[str, Service]:
    module = importlib.import_module(f"services.{request.param}.app")
    return request.param, module.build(context)


async def test_a_service_works_on_exactly_the_events_the_catalogue_says(built: tuple[str, Service]) -> None:
    name, service = built
    assert {event.__name__ for event, _ in service.work} == {
        entry.event.__name__ for entry in ENTRIES if name in entry.consumers
    }
    assert service.name == name.replace("_", "-")


async def test_a_service_hears_exactly_the_news_the_catalogue_says(built: tuple[str, Service]) -> None:
    name, service = built
    assert {event.__name__ for event, _ in service.news} == {
        entry.event.__name__ for entry in ENTRIES if name in entry.listeners
    }


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_emits_only_what_the_catalogue_lets_it(service: str) -> None:
    allowed = {entry.event.__name__ for entry in ENTRIES if service in entry.producers}
    assert emitted_classes(service) <= allowed


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_can_emit_all_that_the_catalogue_says_of_it(service: str) -> None:
    promised = {entry.event.__name__ for entry in ENTRIES if service in entry.producers}
    assert promised <= named_classes(service)


def test_every_event_class_is_in_the_catalogue_once_and_has_a_producer_and_somebody_who_cares() -> None:
    listed = [entry.event.__name__ for entry in ENTRIES]
    assert sorted(listed) == sorted(set(listed)) == sorted(EVENT_CLASSES)
    for entry in ENTRIES:
        assert entry.producers and (entry.consumers or entry.listeners), entry.event.__name__
        assert BY_ROUTING_KEY[entry.event.routing_key()] is entry


def test_an_event_survives_its_journey_as_text() -> None:
    for entry in ENTRIES:
        fields = entry.event.model_fields
        sample = {name: _sample(name) for name, field in fields.items() if field.is_required()}
        event = entry.event.model_validate(sample)
        assert entry.event.model_validate_json(event.model_dump_json()) == event


def _sample(name: str) -> object:
    if name in ("job_ids", "task_ids", "transfer_ids", "candidates", "queues"):
        return ()
    if name.endswith("_at"):
        return "2026-03-01T12:00:00Z"
    if name in ("enabled",):
        return True
    if name == "status":
        return "running"
    return 1 if name.endswith(("_id", "_version", "_jobs")) or name.startswith("files_") else "text"


async def test_a_handler_of_one_event_is_named_after_it(built: tuple[str, Service]) -> None:
    """One search finds the whole path; a fold of many kinds of events may have a name of its own."""
    _, service = built
    handled = defaultdict(set)
    for event, handler in service.work:
        function = inspect.unwrap(getattr(handler, "__func__", handler))
        handled[function].add(event)
    for function, kinds in handled.items():
        if len(kinds) == 1:
            assert function.__name__ == "on_" + "_".join(kinds.pop().words())
