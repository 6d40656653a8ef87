"""Schemas, changes and refusals of dry runs; deciding itself is tested against live decisions."""

import json

import pytest

from services.cli.commands.submission import read_tasks
from services.cli.dry_run.changes import WrongChange, change_parameters, change_queues
from services.cli.failures import WrongUsage
from services.job_brokerage.store.worlds import dump_of
from services.task_definition.tasks.policy.task_file import parse_task_file
from shared.model.link import link_from_dump
from shared.model.problems import InvalidGrid
from tests.handlers.task_definition.world import production


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


def test_a_changed_parameter_goes_where_analysis_reads_it_with_the_application_that_is_read():
    world: dict = {}
    change_parameters(
        world, ["CAP_RUNNING_USER_JOBS=5", "NQUEUELIMITSITE_Express=7", "my_plugin.X=1"], "analysis-brokerage"
    )
    assert [(row["app"], row["component"], row["key"]) for row in world["parameters"]] == [
        ("pandaserver", "prio_mgr", "CAP_RUNNING_USER_JOBS"), ("jedi", "jobbroker", "NQUEUELIMITSITE_Express"),
        ("jedi", "anal_jobbroker", "NQUEUELIMITSITE_Express"), ("jedi", "my_plugin", "X"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("MAX_CANDIDATE=5", "did you mean jobbroker.MAX_CANDIDATES"),
        ("taskbrokerage.NQUEUED_NUC_CUP=5", "did you mean taskbrokerage.NQUEUED_NUC_CAP"),
        ("MAX_CANDIDATES=0", "a number from 1"),
        ("NW_THRESHOLD=high", "a number from 0"),
    ],
)
def test_a_parameter_that_nothing_reads_or_a_value_it_cannot_have_is_refused(change, told):
    with pytest.raises(WrongChange, match="--set") as refusal:
        change_parameters({}, [change], "job-brokerage")
    assert told in str(refusal.value)


def test_a_field_of_a_queue_that_is_never_read_is_refused_with_the_name_that_was_meant():
    with pytest.raises(WrongChange, match="did you mean maxrss"):
        change_queues({"queues": {"A": {"maxrss": 1}}}, ["A.maxrs=5"])


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


WORLD = {
    "format": "orrery-world/1", "now": "2026-01-01T00:00:00Z",
    "queues": {"ALPHA_Q": {"siteid": "ALPHA_Q", "status": "online", "type": "unified", "atlas_site": "ALPHA"}},
    "sites": {"ALPHA": {"name": "ALPHA", "state": "ACTIVE"}}, "storages": {},
}  # fmt: skip


@pytest.fixture
def small_world(tmp_path):
    path = tmp_path / "world.json"
    path.write_text(json.dumps(WORLD))
    return path


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("ALPHA_Q.maxrss=-5", "maxrss: Input should be greater than or equal to 0 (value -5)"),
        ("ALPHA_Q.fairsharepolicy=type=evgen:x%", "'x%' is not a number"),
    ],
)
def test_a_changed_queue_that_the_grid_would_refuse_is_not_blamed_on_the_world(orrery, small_world, change, told):
    outcome = orrery(
        "dry-run", "job-brokerage", "--world", str(small_world), "--task", "-", "--queue", change, stdin="{}"
    )
    assert outcome.code == WrongUsage.exit_code
    assert "--queue" in outcome.err and told in outcome.err and "world file" not in outcome.err


@pytest.mark.parametrize(
    ("task", "told"),
    [
        ({"taskName": "a", "taskType": "prod"}, "orrery snapshot task"),
        ({"parameters": {"taskName": "a", "taskType": "prod"}}, "taskType = 'prod': allowed: 'anal'"),
    ],
)
def test_a_task_that_analysis_brokerage_cannot_be_asked_about_is_told_what_to_do(orrery, small_world, task, told):
    outcome = orrery(
        "dry-run", "analysis-brokerage", "--world", str(small_world), "--task", "-", stdin=json.dumps(task)
    )
    assert outcome.code == 1
    assert told in json.loads(outcome.out)["problems"][0]


@pytest.mark.parametrize(
    ("state", "told"),
    [
        ({"status": "odd"}, ["state.status", "'odd'", "'assigning'", "'running'"]),
        ({"parent": {"status": "odd"}}, ["state.parent.status", "'odd'", "'done'"]),
        ({"nucleus": "NOSUCH"}, ["state.nucleus", "'NOSUCH'", "ALPHA"]),
        ({"nucleus": "BETA"}, ["state.nucleus", "'BETA'", "ALPHA"]),
        ({"changed": {"nucleus": "NOSUCH"}}, ["state.changed.nucleus", "'NOSUCH'", "ALPHA"]),
    ],
)
@pytest.mark.parametrize("brokerage", ["task-brokerage", "job-brokerage"])
def test_a_state_that_no_task_can_have_is_refused_with_what_is_allowed(orrery, small_world, brokerage, state, told):
    content = json.loads(small_world.read_text())
    content["sites"] = {
        "ALPHA": {"name": "ALPHA", "state": "ACTIVE", "datapolicies": ["Nucleus"]},
        "BETA": {"name": "BETA", "state": "ACTIVE"},
    }
    small_world.write_text(json.dumps(content))
    task = json.dumps({"parameters": production(), "state": state})
    outcome = orrery("dry-run", brokerage, "--world", str(small_world), "--task", "-", stdin=task)
    assert outcome.code == 1
    [problem] = json.loads(outcome.out)["problems"]
    assert [part for part in told if part not in problem] == []


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


FILES = {"7": {"parameters": {"taskName": "a"}}, "8": {"parameters": {"taskName": "b"}}}


@pytest.mark.parametrize("ids", [("7", "8"), ("7,8",), ("-",)])
def test_tasks_are_saved_one_on_each_line_as_the_dry_run_reads_them(services, orrery, tmp_path, ids):
    services.says("task/task_files", list(FILES.values()))
    for name in ("tasks.jsonl", "tasks.jsonl.gz"):
        outcome = orrery("snapshot", "task", *ids, str(tmp_path / name), stdin="7\n8\n")
        assert outcome.code == 0 and "2 tasks" in outcome.out
        assert read_tasks(str(tmp_path / name)) == list(FILES.values())
    assert len(services.asked("task/task_files")) == 2


def test_a_task_on_standard_output_is_nothing_but_the_task(services, orrery):
    services.says("task/task_files", [FILES["7"]])
    outcome = orrery("snapshot", "task", "7", "-")
    assert json.loads(outcome.out) == FILES["7"]
    assert services.asked("task/task_files")[0]["task_id"] == "7"


def test_many_tasks_are_asked_for_in_parts(services, orrery):
    services.says("task/task_files", [FILES["7"]])
    outcome = orrery("snapshot", "task", "-", "-", stdin="\n".join(str(one) for one in range(1, 251)))
    assert (len(services.asked("task/task_files")), len(outcome.out.splitlines())) == (3, 3)


def test_a_task_that_is_not_there_writes_no_file(services, orrery, tmp_path):
    services.says("task/task_files", {"task_ids": [9]}, success=False, message="there is no task 9")
    outcome = orrery("snapshot", "task", "9", str(tmp_path / "task.json"))
    assert outcome.code == 1 and "there is no task 9" in outcome.err
    assert not (tmp_path / "task.json").exists()


@pytest.mark.parametrize(("given", "wrong"), [({"gravity": 1}, "gravity"), ({"ram_count": [1]}, "ram_count")])
def test_only_columns_that_brokerage_reads_may_have_changed(given, wrong):
    with pytest.raises(InvalidGrid) as refusal:
        parse_task_file({"parameters": {}, "state": {"changed": given}})
    assert any(wrong in str(problem) for problem in refusal.value.problems)
