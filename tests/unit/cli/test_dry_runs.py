"""Schemas, changes and refusals of dry runs; deciding itself is tested against live decisions."""

import json

import pytest

from services.cli.dry_run.changes import WrongChange, change_parameters, change_queues
from services.cli.failures import WrongUsage
from shared.model.link import link_from_dump
from shared.snapshot.saving import dump_of


@pytest.mark.parametrize(("what", "field"), [("world", "queues"), ("task", "parameters"), ("decision", "exclusions")])
def test_the_schema_of_each_file_is_printed(orrery, what, field):
    outcome = orrery("schema", what)
    assert outcome.code == 0
    assert field in json.loads(outcome.out)["required"]


def test_an_unknown_schema_is_refused_with_what_is_allowed(orrery):
    outcome = orrery("schema", "galaxy")
    assert outcome.code == WrongUsage.exit_code and "world, task, decision" in outcome.err


def test_a_changed_parameter_replaces_the_stored_one_in_every_component_that_is_read():
    world = {"parameters": [{"component": "jobbroker", "key": "MAX_CANDIDATES", "value": "3", "type": "int"}]}
    change_parameters(world, ["MAX_CANDIDATES=5", "taskbrokerage.RETRY_S=9.5"], "job-brokerage")
    found = {(row["component"], row["key"]): (row["value"], row["type"]) for row in world["parameters"]}
    assert found == {("jobbroker", "MAX_CANDIDATES"): ("5", "int"), ("taskbrokerage", "RETRY_S"): ("9.5", "float")}


def test_a_changed_field_of_a_queue_may_be_within_another():
    world = {"queues": [{"siteid": "A.B", "status": "online"}]}
    change_queues(world, ["A.B.status=offline", "A.B.params.direct_access_lan=true"])
    assert world["queues"] == {"A.B": {"siteid": "A.B", "status": "offline", "params": {"direct_access_lan": True}}}


@pytest.mark.parametrize("change", ["NOWHERE.status=offline", "A.status", "=1"])
def test_a_change_that_cannot_be_made_is_refused(change):
    with pytest.raises(WrongChange, match="--queue"):
        change_queues({"queues": {"A": {}}}, [change])


def test_a_world_that_is_none_names_every_problem(orrery, tmp_path):
    world, task = tmp_path / "world.json", tmp_path / "task.json"
    world.write_text(json.dumps({"format": "orrery-world/1", "now": "2026-01-01T00:00:00Z", "queues": {}, "sites": 7}))
    task.write_text("{}")
    outcome = orrery("dry-run", "job-brokerage", "--world", str(world), "--task", str(task))
    assert outcome.code == WrongUsage.exit_code
    assert "sites" in outcome.err and "storages" in outcome.err


def test_a_link_is_saved_as_it_was_dumped():
    at = "2026-01-01T00:00:00+00:00"
    record = {
        "src": "A", "dst": "B", "closeness": {"latest": 4, "timestamp": at},
        "files": {
            "queued": {"Production Output": {"latest": 5, "timestamp": at}, "Express": {"latest": 1, "timestamp": at}},
            "done": {"Production Output": {"1h": 3, "6h": 9}},
        },
        "mbps": {"dashb": {"1d": 2.5, "timestamp": at}},
    }  # fmt: skip
    link = link_from_dump("A:B", record)
    assert not isinstance(link, list)
    assert dump_of([link])["A:B"] == record
