import json

from services.cli.drawings import event_table, service_map
from shared.events import ENTRIES
from shared.states import GRAPHS


def test_every_event_is_listed_with_who_states_it_and_who_works_on_it(orrery):
    outcome = orrery("events", "--json")
    rows = json.loads(outcome.out)
    assert [row["class"] for row in rows] == [entry.event.__name__ for entry in ENTRIES]
    assert all(row["meaning"] and row["producers"] for row in rows)


def test_the_map_has_an_arrow_for_every_producer_and_consumer():
    drawing = service_map()
    for entry in ENTRIES:
        if entry.consumers and entry.producers != ("watchdog",):
            assert entry.event.__name__ in drawing
    assert all(entry.event.routing_key() in event_table() for entry in ENTRIES)


def test_the_states_of_one_kind_of_row_are_shown(orrery):
    shown = orrery("states", "job")
    assert shown.code == 0
    assert "transferring" in shown.out and "scouting" not in shown.out
    assert orrery("states", "job", "--mermaid").out.startswith("stateDiagram-v2")
    assert [graph["entity"] for graph in json.loads(orrery("states", "--json").out)] == [g.entity for g in GRAPHS]


def test_an_unknown_kind_of_row_is_a_usage_error_naming_those_allowed(orrery):
    outcome = orrery("states", "planet")
    assert outcome.code == 2
    assert "'planet'" in outcome.err and "event_range" in outcome.err


def test_every_verb_says_which_service_and_role_it_needs(orrery):
    for verb in (
        "submit",
        "tasks",
        "kill-job",
        "debug",
        "task",
        "jobs",
        "explain",
        "kill",
        "finish",
        "retry",
        "pause",
        "resume",
        "queues",
        "shares",
        "check",
        "watch",
        "token",
        "run",
        "events",
        "states",
    ):
        text = orrery(verb, "--help").out
        assert "Service:" in text and "Role:" in text, verb
    for group, verb in (
        ("grid", "load"),
        ("catalogue", "import"),
        ("catalogue", "show"),
        ("config", "get"),
        ("config", "set"),
        ("config", "unset"),
        ("config", "list"),
        ("snapshot", "save"),
        ("snapshot", "task"),
        ("bus", "parked"),
        ("bus", "replay"),
    ):
        text = orrery(group, verb, "--help").out
        assert "Service:" in text and "Role:" in text, (group, verb)
