"""The command line against the real services: what a user types, and what comes back."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from services.cli.demo.examples import renamed
from tests.integration.cli.conftest import ROOT, Orrery

pytestmark = [pytest.mark.usefixtures("world"), pytest.mark.timeout(300)]
#: what a load of the grid writes about a queue; the rest changes with jobs and pilots
GRID_KEYS = ("queue", "site", "status", "type", "data")
STATUS_WITHIN_S = 90.0
TASKS = sorted((ROOT / "deploy" / "examples" / "tasks").glob("*.json"))


def submit(orrery: Orrery, directory: Path, index: int, name: str, **changes: object) -> int:
    """Submit an example under another name; its id."""
    task = renamed(json.loads(TASKS[index].read_text()), name) | changes
    path = directory / f"{name}.json"
    path.write_text(json.dumps(task))
    outcome = orrery("submit", str(path), "--json")
    assert outcome.code == 0, outcome.out
    return int(outcome.json()[0]["task_id"])


def wait_for(orrery: Orrery, task_id: int, *statuses: str) -> dict:
    """Ask until the task is in one of these states."""
    deadline = time.monotonic() + STATUS_WITHIN_S
    while True:
        details = orrery("task", str(task_id), "--json").json()
        if details["status"] in statuses:
            return details
        assert time.monotonic() < deadline, details
        time.sleep(0.2)


def jobs_of(orrery: Orrery, task_id: int) -> list[dict[str, Any]]:
    """Ask until pilots may take jobs of the task; these."""
    deadline = time.monotonic() + STATUS_WITHIN_S
    while not (jobs := orrery("jobs", "--task", str(task_id), "--status", "activated", "--json").json()):
        assert time.monotonic() < deadline, orrery("explain", "task", str(task_id)).out
        time.sleep(0.2)
    return list(jobs)


@pytest.mark.parametrize("index", range(len(TASKS)), ids=[path.stem for path in TASKS])
def test_every_example_task_gets_jobs_that_pilots_may_take(orrery: Orrery, tmp_path: Path, index: int) -> None:
    task_id = submit(orrery, tmp_path, index, f"jobs{index}")
    jobs = jobs_of(orrery, task_id)
    assert all(job["task_id"] == task_id and job["queue"] for job in jobs)
    explained = orrery("explain", "task", str(task_id))
    stated = json.loads(TASKS[index].read_text())
    # without scouts it runs at once, with a build it is ready until that is done; the first job of one that is
    # pre-processed finds out how the task is to be defined
    status = "running" if stated.get("skipScout") else "ready" if "buildSpec" in stated else "scouting"
    status = "preprocessing" if "preproSpec" in stated else status
    assert ("chosen" in explained.out or "preproSpec" in stated) and status in explained.out
    assert "buildSpec" in stated or "brokerage" in orrery("explain", "job", str(jobs[0]["job_id"])).out
    # no pilot takes them, and too many would hold back the tasks of the other tests
    orrery("kill", str(task_id))


def test_a_task_that_is_wrong_in_many_ways_is_refused_with_every_problem_at_once(orrery: Orrery) -> None:
    task = json.loads(TASKS[0].read_text()) | {"nFiles": -1, "coreCount": "eight", "taskTypo": 1, "vo": ""}
    outcome = orrery("submit", "-", stdin=json.dumps(task))
    assert outcome.code == 1
    for field in ("nFiles", "coreCount", "taskTypo", "vo"):
        assert field in outcome.err, outcome.err
    assert "-1" in outcome.err and "eight" in outcome.err


def test_the_same_name_twice_is_refused(orrery: Orrery, tmp_path: Path) -> None:
    submit(orrery, tmp_path, 1, "twice", uniqueTaskName=True)
    outcome = orrery("submit", str(tmp_path / "twice.json"))
    assert outcome.code == 1
    assert "taskName" in outcome.err


def test_a_dry_run_registers_nothing(orrery: Orrery) -> None:
    before = len(orrery("tasks", "--json").json())
    assert orrery("submit", "--dry-run", *map(str, TASKS)).code == 0
    assert len(orrery("tasks", "--json").json()) == before


def test_a_task_is_paused_resumed_and_killed_by_ids_on_standard_input(orrery: Orrery, tmp_path: Path) -> None:
    task_id = submit(orrery, tmp_path, 1, "commands")
    wait_for(orrery, task_id, "scouting")
    assert orrery("pause", "-", stdin=f"{task_id}\n").code == 0
    wait_for(orrery, task_id, "paused")
    assert orrery("resume", str(task_id)).code == 0
    wait_for(orrery, task_id, "scouting", "ready")
    assert orrery("kill", "-", stdin=json.dumps([{"task_id": task_id}])).code == 0
    details = wait_for(orrery, task_id, "aborted")
    assert not any(details["jobs"].get(state) for state in ("activated", "defined", "running"))
    again = orrery("kill", str(task_id))
    assert again.code == 1 and "aborted" in again.out
    assert orrery("watch", str(task_id)).code == 1


def test_runtime_parameters_are_set_and_read_back(orrery: Orrery) -> None:
    assert orrery("config", "set", "watchdog.SWEEP_AGE_S", "61.5").code == 0
    assert orrery("config", "get", "watchdog.SWEEP_AGE_S", "--json").json()["value"] == "61.5"
    assert "SWEEP_AGE_S" in orrery("config", "list").out
    assert orrery("config", "set", "watchdog.SWEEP_AGE_S", "soon", "--type", "float").code == 1
    assert orrery("config", "get", "watchdog.NOTHING").code == 1
    misspelt = orrery("config", "set", "watchdog.SWEEP_AGES", "5")
    assert misspelt.code == 1 and "did you mean watchdog.SWEEP_AGE_S" in misspelt.err
    assert "61.5" in orrery("config", "list", "watchdog", "--all").out
    assert orrery("config", "unset", "watchdog.SWEEP_AGE_S").code == 0


def waiting(orrery: Orrery, task_id: int) -> list[int]:
    """The activated jobs of a task."""
    return [one["job_id"] for one in orrery("jobs", "--task", str(task_id), "--status", "activated", "--json").json()]


def test_waiting_jobs_come_into_task_queues_and_leave_them_when_these_are_switched_on_and_off(
    orrery: Orrery, tmp_path: Path
) -> None:
    task_id = submit(orrery, tmp_path, 0, "switched")
    wait_for(orrery, task_id, "scouting")
    deadline = time.monotonic() + STATUS_WITHIN_S
    while not waiting(orrery, task_id):
        assert time.monotonic() < deadline
        time.sleep(0.2)

    def in_task_queues() -> int:
        return sum(one["n_jobs"] for one in orrery("task-queues", "--json").json())

    def all_waiting() -> int:
        return len(orrery("jobs", "--status", "activated", "--limit", "1000", "--json").json())

    before = waiting(orrery, task_id)
    assert in_task_queues() == 0
    for mode, expected in (("within", all_waiting), ("off", lambda: 0)):
        assert orrery("config", "set", "order.TASK_QUEUES", mode).code == 0
        deadline = time.monotonic() + STATUS_WITHIN_S
        while (found := in_task_queues()) != (wanted := expected()):
            assert time.monotonic() < deadline, f"{mode}: {found} jobs in task queues, {wanted} expected"
            time.sleep(0.5)
        assert set(before) <= set(waiting(orrery, task_id))
    orrery("kill", str(task_id))


@pytest.mark.parametrize("index", range(len(TASKS)), ids=[path.stem for path in TASKS])
def test_a_live_task_and_the_live_world_are_saved_and_decided_upon_without_servers(
    orrery: Orrery, tmp_path: Path, index: int
) -> None:
    task_id = submit(orrery, tmp_path, index, f"saved{index}")
    jobs_of(orrery, task_id)
    world, task = str(tmp_path / "world.json.gz"), str(tmp_path / "task.json")
    assert orrery("snapshot", "save", world).code == 0
    assert orrery("snapshot", "task", "-", task, stdin=f"{task_id}\n").code == 0
    is_analysis = json.loads(TASKS[index].read_text()).get("taskType") == "anal"
    brokerage = "analysis-brokerage" if is_analysis else "job-brokerage"
    # the jobs of the other tests wait at the queues, too: what if as many as they like may wait?
    files = ("--world", world, "--task", task, "--set", "NQUEUELIMITSITE=100000")
    before = orrery("dry-run", brokerage, *files).json()
    assert (before["task_id"], before["outcome"]) == (task_id, "chosen")
    queue = before["candidates"][0]["queue"]
    after = orrery("dry-run", brokerage, *files, "--queue", f"{queue}.status=offline").json()
    # while its library is built, a task goes where that is whatever the state of the queue
    is_bound = "buildSpec" in json.loads(TASKS[index].read_text())
    assert is_bound == (queue in {one["queue"] for one in after["candidates"]})
    assert orrery("snapshot", "task", str(task_id), "999999", task).code == 1
    orrery("kill", str(task_id))


def grid_of_queues(orrery: Orrery) -> str:
    """What a load of the grid writes about queues, in one text."""
    rows = orrery("queues", "--json").json()
    assert rows
    return json.dumps([{key: row[key] for key in GRID_KEYS} for row in rows], sort_keys=True)


def test_a_bad_grid_is_refused_whole_with_file_key_and_reason(orrery: Orrery, tmp_path: Path) -> None:
    for path in (ROOT / "deploy" / "examples" / "grid").iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    queues = json.loads((tmp_path / "queues.json").read_text())
    queues["BNL-ATLAS"]["corecount"] = "many"
    queues["CERN"]["atlas_site"] = "ATLANTIS"
    (tmp_path / "queues.json").write_text(json.dumps(queues))
    before = grid_of_queues(orrery)
    outcome = orrery("grid", "load", str(tmp_path))
    assert outcome.code == 1
    assert "queues.json" in outcome.err and "BNL-ATLAS" in outcome.err and "ATLANTIS" in outcome.err
    assert grid_of_queues(orrery) == before


def test_the_catalogue_shows_datasets_and_files(orrery: Orrery) -> None:
    names = [row["name"] for row in orrery("catalogue", "show", "*PhysCont*", "--json").json()]
    assert len(names) == 4
    container = orrery("catalogue", "show", next(name for name in names if "AllYear" in name), "--json").json()
    assert container["kind"] == "container"
    assert orrery("catalogue", "show", "no.such.dataset").code == 1


def test_queues_shares_parked_messages_and_invariants_can_be_seen(orrery: Orrery) -> None:
    assert len(orrery("queues", "--json").json()) >= 40
    assert "MC" in orrery("shares").out
    assert orrery("bus", "parked", "--json").json() == []
    assert orrery("bus", "replay", "999999").code == 1
    check = orrery("check")
    assert check.code == 0, check.out


def test_shares_are_explained_edited_and_ordered_from_a_saved_world(orrery: Orrery, tmp_path: Path) -> None:
    live = orrery("shares", "--explain", "--json").json()["shares"]
    one = orrery("shares", "--explain", "MC", "--json").json()
    assert [row["gshare"] for row in one["shares"]] == ["MC"] and one["history"] == []
    assert all(user["terms"] is None for user in one["users"]), "nothing was corrected yet"
    world, tree = tmp_path / "world.json", tmp_path / "shares.json"
    assert orrery("snapshot", "save", str(world)).code == 0
    ordered = orrery("dry-run", "shares", "--world", str(world), "--json").json()
    assert due_of(ordered) == due_of(live)
    shares = json.loads(world.read_text())["shares"]
    tree.write_text(json.dumps(shares))
    assert orrery("shares", "edit", str(tree), "--json").json()["changes"] == []
    tree.write_text(json.dumps([{**row, "value": row["value"] + 1} if row["name"] == "MC" else row for row in shares]))
    assert "MC" in orrery("shares", "edit", str(tree), "--dry-run").out
    assert due_of(orrery("shares", "--explain", "--json").json()["shares"]) == due_of(live)


def due_of(rows: list[dict[str, Any]]) -> dict[str, float]:
    """What shares are due; their order depends on what runs at the moment."""
    return {row["gshare"]: row["due_percent"] for row in rows}


@pytest.mark.parametrize(
    "verb",
    ["tasks", "jobs", "queues", "shares", "check", "events", "states", "token", "config list", "catalogue show",
     "bus parked"],
)  # fmt: skip
def test_every_verb_that_shows_something_prints_one_json_document(orrery: Orrery, verb: str) -> None:
    outcome = orrery(*verb.split(), "--json")
    assert outcome.code == 0, outcome.err
    assert outcome.json() is not None


def test_secrets_are_kept_for_a_vo_listed_encrypted_anew_and_forgotten(orrery: Orrery) -> None:
    refused = orrery("secrets", "set", "API_TOKEN", "-", stdin="very-secret\n")
    assert refused.code == 1 and "vo: allowed: a VO of at most 16 characters" in refused.err
    assert orrery("secrets", "set", "API_TOKEN", "-", "--vo", "atlas", stdin="very-secret\n").code == 0
    assert orrery("secrets", "set", "LOGIN", "l", "--vo", "cms", "--for-pilots").code == 0
    shown = orrery("secrets", "list")
    assert "API_TOKEN" in shown.out and "very-secret" not in shown.out
    kept = orrery("secrets", "list", "--json").json()["secrets"]
    assert [(one["key"], one["vo"], one["for_pilots"]) for one in kept] == [
        ("API_TOKEN", "atlas", False),
        ("LOGIN", "cms", True),
    ]
    added = orrery("secrets", "add-key")
    assert added.code == 0 and "encrypts from now on" in added.out
    rotated = orrery("secrets", "rotate-key").out
    assert rotated.startswith("2 secrets are encrypted with the key ") and "no other key" in rotated
    assert orrery("secrets", "forget", "API_TOKEN", "--vo", "cms").code == 1
    for key, vo in (("API_TOKEN", "atlas"), ("LOGIN", "cms")):
        assert orrery("secrets", "forget", key, "--vo", vo).code == 0
    assert orrery("secrets", "list", "--json").json() == {"secrets": [], "notes": []}


def test_who_may_not_is_told_so(orrery: Orrery) -> None:
    token = orrery("token", "--name", "somebody", "--role", "user").out.strip()
    outcome = orrery("config", "set", "a.b", "1", ORRERY_TOKEN=token)
    assert outcome.code == 1 and "not allowed" in outcome.err
    outcome = orrery("tasks", ORRERY_TOKEN="nonsense")
    assert outcome.code == 1 and "not authenticated" in outcome.err


def test_the_command_is_a_program_of_its_own(one_process: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "services.cli", "tasks", "--json"],
        env=one_process,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0
    assert isinstance(json.loads(done.stdout), list)
