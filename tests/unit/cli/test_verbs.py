"""Every verb against fake services: what it asks, what it prints, with which code it ends."""

import json
import tomllib
from pathlib import Path

import pytest

from services.cli.commands.tasks import says
from services.cli.failures import WrongUsage
from services.cli.output import cell
from shared.states.job import MEANINGS

PROJECT = Path(__file__).parents[3]
TASK = {"taskName": "mc.one", "nEvents": 3}


def test_submitting_several_files_tries_each_and_lists_every_problem_of_a_refused_one(services, orrery, tmp_path):
    def answer(arguments):
        if arguments["task_parameters"]["nEvents"] < 0:
            problems = [{"field": "nEvents", "value": -1, "allowed": "1 or more"}, {"field": "vo", "allowed": "a name"}]
            return 200, {"success": False, "message": "2 problems", "data": 5, "problems": problems}
        return 200, {"success": True, "message": "jediTaskID=12", "data": 12}

    services.answers["task/submit"] = answer
    (tmp_path / "good.json").write_text(json.dumps(TASK))
    (tmp_path / "bad.json").write_text(json.dumps(TASK | {"nEvents": -1}))
    outcome = orrery("submit", str(tmp_path / "bad.json"), str(tmp_path / "good.json"))
    assert outcome.code == 1
    assert "nEvents: value -1: 1 or more" in outcome.err and "vo: a name" in outcome.err
    assert "12" in outcome.out and "mc.one" in outcome.out
    assert len(services.asked("task/submit")) == 2


def test_tasks_on_standard_input_may_stand_one_per_line(services, orrery):
    services.says("task/submit", 5)
    outcome = orrery("submit", "-", "--json", stdin='{"taskName": "a"}\n{"taskName": "b"}\n')
    assert outcome.code == 0
    assert [one["task_parameters"]["taskName"] for one in services.asked("task/submit")] == ["a", "b"]
    assert [row["task_id"] for row in json.loads(outcome.out)] == [5, 5]


def test_a_dry_run_says_so_to_the_service(services, orrery):
    services.says("task/submit", None, message="would be accepted")
    assert orrery("submit", "-", "--dry-run", stdin=json.dumps(TASK)).code == 0
    assert services.asked("task/submit")[0]["dry_run"] is True


@pytest.mark.parametrize("text", ["", "{", "[]", "[1]", '"text"'])
def test_what_is_not_a_task_is_a_usage_error_and_nothing_is_sent(services, orrery, text):
    outcome = orrery("submit", "-", stdin=text)
    assert outcome.code == WrongUsage.exit_code
    assert "standard input" in outcome.err
    assert services.requests == []


def test_the_line_that_is_no_task_is_named(services, orrery):
    outcome = orrery("submit", "-", stdin='{"taskName": "a"}\n\n{"taskName": \n{"taskName": "b"}\n')
    assert outcome.code == WrongUsage.exit_code and "standard input: line 3: not JSON" in outcome.err
    assert services.requests == []


def test_ids_printed_by_one_verb_are_taken_by_the_next(services, orrery):
    services.says("task/list", [{"task_id": 3, "status": "failed"}, {"task_id": 4, "status": "failed"}])
    services.says("task/retry", 0, message="command accepted")
    ids = orrery("tasks", "--status", "failed", "--ids").out
    assert orrery("retry", "-", stdin=ids).code == 0
    assert orrery("retry", "-", stdin=orrery("tasks", "--json").out).code == 0
    assert [one["task_id"] for one in services.asked("task/retry")] == [3, 4, 3, 4]


@pytest.mark.parametrize("verb", ["tasks", "jobs"])
def test_where_there_are_no_ids_nothing_is_printed(services, orrery, verb):
    services.says(f"{verb.removesuffix('s')}/list", [])
    outcome = orrery(verb, "--ids")
    assert (outcome.code, outcome.out) == (0, "")


def test_a_command_that_is_refused_for_one_task_is_still_given_to_the_others(services, orrery):
    def answer(arguments):
        good = arguments["task_id"] != 2
        return 200, {
            "success": good,
            "message": "" if good else "irrelevant task status: done",
            "data": 0 if good else 4,
        }

    services.answers["task/kill"] = answer
    outcome = orrery("kill", "1", "2", "3", "--json")
    assert outcome.code == 1
    assert [row["outcome"] for row in json.loads(outcome.out)] == ["accepted", "refused", "accepted"]


def test_finish_waits_for_running_jobs_unless_told_otherwise(services, orrery):
    services.says("task/finish", 0)
    orrery("finish", "1")
    orrery("finish", "1", "--hard")
    assert [one["soft"] for one in services.asked("task/finish")] == [True, False]


def test_a_broken_invariant_ends_the_check_with_one_and_names_the_row(services, orrery):
    row = {"invariant": "I3", "text": "I3 counters: dataset 7 says 4, holds 5"}
    invariants = [{"invariant": "I3", "meaning": "counters equal contents", "ok": False}]
    services.says("check", {"invariants": invariants, "violations": [row]})
    outcome = orrery("check")
    assert outcome.code == 1
    assert "dataset 7 says 4" in outcome.out
    services.says("check", {"invariants": [invariants[0] | {"ok": True}], "violations": []})
    assert orrery("check").code == 0


def test_a_grid_folder_is_sent_whole(services, orrery, tmp_path):
    (tmp_path / "queues.json").write_text("{}")
    (tmp_path / "sites.json").write_text("{}")
    services.says("grid/load", {"version": 2, "queues": 0})
    assert orrery("grid", "load", str(tmp_path)).code == 0
    assert services.asked("grid/load")[0] == {"files": {"queues": {}, "sites": {}}, "keep_times": False}
    assert orrery("grid", "load", str(tmp_path / "nowhere")).code == 2
    (tmp_path / "queues.json").write_text("{")
    outcome = orrery("grid", "load", str(tmp_path))
    assert outcome.code == 2 and "queues.json" in outcome.err


def test_watching_ends_with_the_task_and_its_code_says_how(services, orrery):
    statuses = iter(["ready", "running", "done"])

    def answer(_):
        dataset = {"type": "input", "n_files": 4, "n_files_finished": 4, "n_files_used": 4}
        data = {"task_id": 9, "status": next(statuses), "datasets": [dataset], "jobs": {"finished": 4}}
        return 200, {"success": True, "message": "", "data": data}

    services.answers["task/get_details"] = answer
    outcome = orrery("watch", "9", "--every", "0.1")
    assert outcome.code == 0
    assert [line.split()[2].rstrip(":") for line in outcome.out.splitlines()] == ["ready", "running", "done"]
    services.says("task/get_details", {"task_id": 9, "status": "broken", "error_dialog": "no such dataset"})
    outcome = orrery("watch", "9")
    assert outcome.code == 1 and "no such dataset" in outcome.out


def test_explaining_prints_the_services_own_words(services, orrery):
    services.says("explain/task", {"text": "212 queues: 140 configuration, 40 data"})
    assert "212 queues" in orrery("explain", "task", "9").out
    services.says("explain/job", {"status": "activated", "decisions": [{"queue": "Q", "reason": "memory"}]})
    assert "memory" in orrery("explain", "job", "9").out
    assert orrery("explain", "planet", "9").code == 2


def test_a_task_that_is_not_there_is_named_and_the_others_are_explained(services, orrery):
    def answer(arguments):
        if int(arguments["task_id"]) == 9:
            return 200, {"success": True, "message": "", "data": {"text": "212 queues, 3 passed"}}
        return 404, {"success": False, "message": f"task {arguments['task_id']} not found", "data": None}

    services.answers["explain/task"] = answer
    outcome = orrery("explain", "task", "8", "9")
    assert outcome.code == 1 and "task 8 not found" in outcome.err and "3 passed" in outcome.out
    outcome = orrery("explain", "task", "8", "9", "--json")
    assert outcome.code == 1 and json.loads(outcome.out)["success"] is False


@pytest.mark.parametrize(
    ("value", "shown"), [(1e4, "10,000"), (86400.0, "86,400"), (1.7, "1.7"), (0.00012345, "0.0001234"), (5.0, "5")]
)
def test_numbers_are_shown_as_people_write_them(value, shown):
    assert str(cell(value)) == shown


def test_no_service_means_code_three_and_json_stays_json(orrery, monkeypatch):
    monkeypatch.setenv("ORRERY_TASK_DEFINITION_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("ORRERY_TOKEN", "t")
    outcome = orrery("tasks", "--json")
    assert outcome.code == 3
    assert json.loads(outcome.out)["success"] is False


def test_the_token_is_sent_with_every_request(services, orrery):
    services.says("bus/parked", [])
    assert "nothing is parked" in orrery("bus", "parked").out
    assert services.headers[-1]["Authorization"] == "Bearer a-token"


def test_numbers_and_texts_that_json_cannot_hold_reach_the_service_which_names_the_field(services, orrery):
    problems = [{"field": "cpuTime", "value": "nan", "allowed": "a number"}]
    services.answers["task/submit"] = (200, {"success": False, "message": "no", "data": 2, "problems": problems})
    outcome = orrery("submit", "-", stdin='{"taskName": "half \\ud800", "cpuTime": NaN, "ramCount": 1e999}')
    assert outcome.code == 1 and "cpuTime: value 'nan': a number" in outcome.err
    [sent] = services.asked("task/submit")
    assert sent["task_parameters"]["ramCount"] == float("inf") and sent["task_parameters"]["taskName"] == "half \ud800"


def test_a_name_that_is_too_long_is_cut_where_it_is_told(services, orrery):
    services.says("task/submit", 2, message="taskName: too long", success=False)
    outcome = orrery("submit", "-", stdin=json.dumps(TASK | {"taskName": "n" * 5000}))
    assert outcome.code == 1 and len(outcome.err) < 300


def test_a_job_or_queue_that_is_not_there_is_named_and_the_others_are_shown(services, orrery):
    services.says(
        "job/list", [{"job_id": 3, "task_id": 1, "status": "running", "queue": "A", "resource_type": "SCORE"}]
    )
    services.says("grid/queues", [{"queue": "A", "site": "S", "status": "online"}])
    outcome = orrery("jobs", "3", "4")
    assert outcome.code == 1 and "there is no job 4" in outcome.err and "running" in outcome.out
    outcome = orrery("queues", "A", "B")
    assert outcome.code == 1 and "there is no queue B" in outcome.err and "online" in outcome.out
    assert orrery("queues", "A").code == 0 and orrery("jobs", "3").code == 0


def test_watching_says_that_it_gave_up(services, orrery):
    services.says("task/get_details", {"task_id": 7, "status": "running"})
    outcome = orrery("watch", "7", "--timeout", "0.1", "--every", "0.1")
    assert outcome.code == 1 and "task 7 is still running after 0.1 s" in outcome.err


def test_what_a_task_says_begins_with_the_nearest_miss_and_is_cut_only_in_a_narrow_terminal():
    said = "189 queues, 0 passed: 100 configuration, 89 policy; nearest miss: Q1 (zero_share: share 0 %, above 0 %)"
    narrow, wide = says(said, 80), says(said, 300)
    assert narrow.startswith("nearest miss: Q1 (zero_share") and narrow.endswith("...") and len(narrow) == 60
    assert wide == "nearest miss: Q1 (zero_share: share 0 %, above 0 %); 189 queues, 0 passed: 100 configuration, " + (
        "89 policy"
    )
    assert says("free space 3.44771e+07 GB", 80) == "free space 34,477,100 GB"


def test_a_task_begins_with_its_id_told_once_its_name_its_status_and_the_reason(services, orrery):
    details = {
        "jediTaskID": 7,
        "vo": "demo",
        "status": "pending",
        "task_id": 7,
        "error_dialog": "no queue has room",
        "task_name": "mc.7",
    }
    services.says("task/get_details", details)
    lines = [line.rstrip().split(maxsplit=1) for line in orrery("task", "7").out.splitlines()]
    assert lines[:4] == [["task", "7"], ["name", "mc.7"], ["status", "pending"], ["reason", "no queue has room"]]
    assert ["vo", "demo"] in lines and "jediTaskID" not in {line[0] for line in lines}


@pytest.mark.parametrize(("columns", "most"), [("70", 70), ("150", 150), ("", 200), ("nonsense", 200)])
def test_a_table_that_is_piped_keeps_to_columns(services, orrery, monkeypatch, columns, most):
    monkeypatch.setenv("COLUMNS", columns)
    services.says("task/list", [{"task_id": 3, "status": "failed", "task_name": "n" * 300, "error_dialog": "e" * 300}])
    lines = orrery("tasks").out.splitlines()
    assert most - 20 < max(len(line.rstrip()) for line in lines) <= most


@pytest.mark.parametrize(("columns", "shown"), [("80", False), ("119", False), ("120", True), ("", True)])
def test_tasks_in_80_columns_break_no_heading_and_no_status(services, orrery, monkeypatch, columns, shown):
    monkeypatch.setenv("COLUMNS", columns)
    one = {"task_id": 3, "status": "scouting", "progress": 100, "nucleus": "TRIUMF-LCG2", "task_name": "n" * 90}
    services.says("task/list", [one | {"gshare": "User Analysis", "user_name": "production", "current_priority": 700}])
    heading, first, *_ = orrery("tasks").out.splitlines()
    assert {"task", "status", "progress", "changed", "nucleus", "name", "says"} <= set(heading.split())
    assert {"3", "scouting", "100%", "TRIUMF-LCG2"} <= set(first.split())
    assert ("priority" in heading, "share" in heading, "user" in heading) == (shown, shown, shown)


def test_an_empty_standard_input_is_named_where_ids_are_read_from_it(services, orrery):
    outcome = orrery("retry", "-", stdin="\n")
    assert outcome.code == 2 and "none on standard input" in outcome.err and not services.asked("task/retry")


def test_the_help_of_a_group_names_only_verbs_that_there_are(orrery):
    described = next(line for line in orrery("bus", "--help").out.splitlines() if "Messages that were parked" in line)
    assert "parked lists" in described and orrery("bus", "parked", "--help").code == 0


def test_the_version_that_is_printed_is_that_of_the_project(orrery):
    outcome = orrery("--version")
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    assert (outcome.code, outcome.out) == (0, f"orrery {project['version']}\n")


def test_every_job_that_is_named_is_killed_or_says_why_not(services, orrery):
    def answer(arguments):
        killed = [one == 5 for one in arguments["job_ids"]]
        return 200, {"success": any(killed), "message": "job 6: is finished", "data": killed}

    services.answers["job/kill"] = answer
    outcome = orrery("kill-job", "5", "6", "--json")
    assert outcome.code == 1
    assert [(one["job_id"], one["outcome"], one["message"]) for one in json.loads(outcome.out)] == [
        (5, "killed", ""), (6, "refused", "job 6: is finished")
    ]  # fmt: skip
    assert services.asked("job/kill") == [{"job_ids": [5, 6]}]
    assert orrery("kill-job", "5").code == 0
    outcome = orrery("kill-job", "6")
    assert outcome.code == 1 and "is finished" in outcome.out


def test_debug_mode_is_asked_for_and_its_output_shown(services, orrery):
    services.answers["job/set_command"] = lambda _: (200, {"success": True, "message": "", "data": None})
    sent = {"job_id": 5, "stdout": "event 3\n", "reported_at": "2026-01-01T00:00:00+00:00"}
    services.answers["job/get_stdout"] = lambda _: (200, {"success": True, "message": "", "data": sent})
    for arguments in (["5"], ["5", "tail", "log.txt"], ["5", "--off"]):
        assert orrery("debug", *arguments).code == 0
    told = [one["command"] for one in services.asked("job/set_command")]
    assert told == ["debug", "tail log.txt", "debugoff"]
    assert orrery("debug", "5", "ls", "--off").code == WrongUsage.exit_code
    shown = orrery("jobs", "--stdout", "5")
    assert shown.code == 0 and shown.out.startswith("event 3\n\nsent ") and shown.out.endswith(" ago\n")
    assert json.loads(orrery("jobs", "--stdout", "5", "--json").out) == sent


def test_jobs_in_a_state_that_there_is_not_are_refused_with_the_states(services, orrery):
    outcome = orrery("jobs", "--status", "nonsense")
    assert outcome.code == WrongUsage.exit_code and services.requests == []
    said = " ".join(outcome.err.split())
    assert "'nonsense'" in said and all(state in said for state in MEANINGS)


def test_a_task_that_its_share_holds_back_says_so_in_the_list(services, orrery):
    held = {
        "task_id": 7,
        "status": "ready",
        "error_dialog": None,
        "held_back": "21 queued jobs are more than the cap 5",
    }
    services.says("task/list", [held])
    assert "21 queued jobs are more than the cap 5" in orrery("tasks").out
