"""What others wrote - users, pilots, whoever answers - is text on a terminal, whatever is in it."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

import services.cli as services_cli
from services.cli.app import command_line
from services.cli.demo.display import LiveDisplay, PlainDisplay, task_table
from services.cli.demo.observation import Observation, QueueLoad
from services.cli.output import Screen, cell
from services.cli.progress import TaskCounts
from tests.unit.cli.test_json_of_every_verb import verbs

#: clears the screen, sets the title and the clipboard, reorders, hides; a line of its own, and rich's markup
CANARY = (
    "c\x1b[2J\x1b]0;owned\x07\x1b]52;c;aGk=\x07\x9b2J\x7f\x00\x08\r\nFORGED\n\u2028FORGED\t\u202e\u2066\u200b\ufeff"
    "\U000e0041\ud800\u061c[red]r[/red][link=http://x]:bomb:"
)
#: what must be read of it on the screen, wherever a column is wide enough
SEEN = r"c\x1b[2J\x1b]0;owned\x07"
WHEN = "2026-01-01T00:00:00Z"
OF_A_TASK = {
    "task_id": 7, "status": "failed", "progress": 1, "current_priority": 1, "state_change_time": WHEN,
    **dict.fromkeys(("gshare", "nucleus", "user_name", "task_name", "error_dialog", "held_back"), CANARY),
}  # fmt: skip
DETAILS = {
    "task": OF_A_TASK,
    "datasets": [{"dataset_name": CANARY, "type": "input", "status": CANARY, "n_files": 1}],
    "jobs": {CANARY: 3},
    "task_parameters": {CANARY: CANARY},
}
OF_A_JOB = {
    "job_id": 1, "task_id": 7, "state_change_time": WHEN, "heartbeat_at": CANARY, "attempt_number": 1,
    **dict.fromkeys(
        ("job_type", "status", "job_sub_status", "queue", "resource_type", "worker", "error_dialog"), CANARY
    ),
}  # fmt: skip
DESCRIBED = {
    "owner": CANARY, "vo": CANARY, "command": CANARY, "error_source": CANARY, "reported_at": WHEN, "heartbeat_at": WHEN,
    "spec": dict.fromkeys(("transformation", "jobPars", "inFiles", "outFiles", "logFile", "scopeLog"), CANARY),
    "report": {"node": CANARY, "outputs": {CANARY: {"surl": CANARY, "endpoint": CANARY}}},
}  # fmt: skip
OF_A_QUEUE = {
    **dict.fromkeys(("queue", "site", "status", "type", "cordon_reason", "last_pilot_at"), CANARY),
    "jobs": {"activated": 1}, "running_workers": 1, "n_slots": CANARY,
}  # fmt: skip
TERMS = {"target": 0.5, "total": 1.0, "max_global": 3.0, "slices": {CANARY: {"used": 0.1, "c": 1.0, "weight": 1.0}}}
OF_A_SHARE = {"gshare": CANARY, "standing": CANARY, "place": 1, "terms": TERMS, "parent": CANARY, "vo": CANARY}
OF_A_TASK_QUEUE = {
    **dict.fromkeys(("vo", "user_group", "user_name", "alone", "n_alike"), CANARY), "task_queue_id": 1,
    "cpu_segment_s": 5, "is_background": False,
    **{name: [CANARY] for name in ("sites", "banned_sites", "platforms", "tags", "job_types")},
}  # fmt: skip
OF_A_WORK_QUEUE = {
    "queue_id": 1, "n_tasks": 1,
    **dict.fromkeys(("name", "vo", "criteria", "queue_function", "label", "type", "gshare"), CANARY),
}  # fmt: skip
OF_A_RULE = {
    "rule_id": 1, "parameters": {CANARY: CANARY},
    **dict.fromkeys(("source", "pattern", "action", "architecture", "release", "note", "expires_at"), CANARY),
}  # fmt: skip
OF_A_SERIES = {
    "periodic_id": 1, "period_s": 60, "creation_time": WHEN,
    **dict.fromkeys(("status", "next_at", "ends_at", "user_name", "task_name", "last_error"), CANARY),
}  # fmt: skip
OF_A_RULE = {
    **dict.fromkeys(("rule", "because_of", "never", "then", "waiting_task_id", "oldest_at", "next_drop_at"), CANARY),
    **dict.fromkeys(("keep_days", "n_bytes", "bytes_a_day", "n_dropped", "n_waiting_tasks"), 1),
    "most_gb": None, "is_nearly_full": False,
}  # fmt: skip
CONDITION = {
    "findings": [{"what": CANARY, "n": 1, "since": CANARY, "see": CANARY}],
    "services": [{"service": CANARY, "runs": True}],
    "messages": {**dict.fromkeys(("n_unpublished", "n_deferred", "n_parked"), 0),
                 **dict.fromkeys(("unpublished_since", "deferred_since", "parked_since"), CANARY)},
    "deferred": [{"consumer": CANARY, "n_messages": 1, "most_attempts": 1, "since": CANARY, "reason": CANARY}],
    "tasks": [{"status": CANARY, "n_tasks": 1}], "jobs": [{"status": CANARY, "n_jobs": 1}],
    "slow": [{"process": CANARY, "open_s": 2.0, "state": CANARY, "waits_for": CANARY}],
    "database": {"n_bytes": 1, "postgresql": CANARY}, "tables": [{"name": CANARY, "n_bytes": 1, "n_rows": 1}],
}  # fmt: skip
NAMED = {CANARY: CANARY, "name": CANARY, "list": [CANARY], "object": {CANARY: CANARY}, "rows": [{CANARY: CANARY}]}
PARAMETER = dict.fromkeys(("app", "component", "key", "vo", "value", "type", "changed_by", "description"), CANARY)
ACCEPTED = {CANARY: CANARY}

#: verb -> arguments, path of the API, data of the answer
READS: dict[str, tuple[str, str, Any]] = {
    "tasks": ("", "task/list", [OF_A_TASK]),
    "task": ("7 --parameters", "task/get_details", DETAILS),
    "watch": ("7", "task/get_details", DETAILS),
    "jobs": ("", "job/list", [OF_A_JOB]),
    "job": ("1", "job/get_description_incl_archive", [OF_A_JOB | DESCRIBED]),
    "logs": ("1", "job/get_description_incl_archive", [OF_A_JOB | {"withheld": CANARY}]),
    "explain": ("task 7", "explain/task", {"text": CANARY}),
    "queues": ("", "grid/queues", [OF_A_QUEUE]),
    "shares": ("", "share/list", [OF_A_SHARE]),
    "task-queues": ("", "job/task_queues", [OF_A_TASK_QUEUE]),
    "groups list": ("", "group/list", [{"name": CANARY, "vo": CANARY, "n_users": 1}]),
    "users list": ("", "user/list", [{"user_name": CANARY, "groups": [CANARY], "may": [CANARY], "grid_pref": CANARY}]),
    "work-queues list": ("", "work_queue/list", [OF_A_WORK_QUEUE]),
    "retry-rules list": ("", "retry_rule/list", [OF_A_RULE]),
    "timeouts": ("", "timeout/list", [dict.fromkeys(("name", "vo", "limit", "condition", "source"), CANARY)]),
    "periodic list": ("", "periodic_task/list", [OF_A_SERIES]),
    "catalogue show": ("name", "catalogue/dataset", NAMED),
    "catalogue used-up": ("7", "used_up_files/list", [{"name": CANARY, "job_id": 1}]),
    "catalogue deleted": ("7 a.zip", "used_up_files/deleted", ACCEPTED),
    "catalogue requests": ("", "catalogue/requests", [{"request_id": 1, "task_id": 7, "kind": CANARY, "text": CANARY}]),
    "config list": ("", "config/list", [PARAMETER]),
    "config get": ("dbproxy.X", "config/get", PARAMETER),
    "bus parked": ("", "bus/parked", [{"parked_id": 1, "consumer": CANARY, "routing_key": CANARY, "reason": CANARY}]),
    "check": ("", "check", {"invariants": [{"name": CANARY, "says": CANARY}], "violations": [{"text": CANARY}]}),
    "token revocations": ("", "token/revocations", [{"kind": CANARY, "name": CANARY, "reason": CANARY}]),
    "catalogue scope list": ("", "catalogue/scopes", [dict.fromkeys(("scope", "vo", "owner", "claimed_by"), CANARY)]),
    "catalogue refused": ("", "catalogue/refused", [dict.fromkeys(("scope", "dataset", "verb", "caller"), CANARY)]),
    "secrets list": (
        "",
        "creds/list_user_secrets",
        {"secrets": [{"vo": CANARY, "key": CANARY}], "notes": [dict.fromkeys(("caller", "what", "task_name"), CANARY)]},
    ),
    # what a service answers to a change is shown, too
    "catalogue scope set": ("s --vo v", "catalogue/scope", ACCEPTED),
    "catalogue readable": ("n", "catalogue/readable", {"names": [CANARY]}),
    "secrets set": ("k v --vo v", "creds/set_user_secrets", ACCEPTED),
    "secrets forget": ("k --vo v", "creds/set_user_secrets", ACCEPTED),
    "secrets rotate-key": ("", "creds/rotate_key", ACCEPTED),
    "kill": ("7", "task/kill", ACCEPTED),
    "kill-job": ("1", "job/kill", [False]),
    "debug": ("1 ls", "job/set_command", ACCEPTED),
    "slots": ("Q 1", "harvester/add_target_slots", ACCEPTED),
    "cordon": ("Q --reason x", "grid/cordon", ACCEPTED),
    "uncordon": ("Q", "grid/uncordon", ACCEPTED),
    "config set": ("a.b 1", "config/set", ACCEPTED),
    "config unset": ("a.b", "config/unset", ACCEPTED),
    "status": ("", "condition", CONDITION),
    "retention": ("", "retention", [OF_A_RULE]),
    "audit": (
        "",
        "audit",
        [dict.fromkeys(("caller", "verb", "target", "outcome", "details"), CANARY) | {"roles": [CANARY]}],
    ),
    "watchdog list": (
        "",
        "watchdog/list",
        [
            dict.fromkeys(("action", "does", "last_run_at", "last_done_at", "n_done"), CANARY)
            | {"period_s": 5, "late_s": 1}
        ],
    ),
    "watchdog run": (
        "sweep --dry-run",
        "watchdog/run",
        {"did": [{"event": CANARY, "task_ids": [CANARY], CANARY: CANARY, "reason": CANARY}]},
    ),
    "bus drop": ("1 --reason x", "bus/drop", {"dropped": [CANARY]}),
    "bus replay": ("1", "bus/replay", {"replayed": CANARY}),
    "periodic pause": ("1", "periodic_task/pause", ACCEPTED),
    "groups set": ("g --vo v", "group/set", ACCEPTED),
    "groups remove": ("g --vo v", "group/remove", ACCEPTED),
    "users set": ("u", "user/set", ACCEPTED),
    "users remove": ("u", "user/remove", ACCEPTED),
    "retry-rules remove": ("1", "retry_rule/remove", ACCEPTED),
    "token revoke": ("--id t", "token/revoke", ACCEPTED),
}
#: other forms of the same verbs
FORMS: list[tuple[str, str, Any]] = [
    ("jobs --ids", "job/list", [{**OF_A_JOB, "job_id": CANARY}]),
    ("tasks --ids", "task/list", [{**OF_A_TASK, "task_id": CANARY}]),
    ("explain job 1", "explain/job", {CANARY: CANARY, "text": None, "table": [{CANARY: CANARY}]}),
    ("explain task 7", "explain/task", CANARY),
    ("explain queue Q", "explain/queue", {"text": CANARY}),
    ("shares --explain", "share/explain", {"shares": [OF_A_SHARE], "users": [{"user_name": CANARY, "terms": TERMS}]}),
    ("catalogue show *", "catalogue/datasets", [dict.fromkeys(("name", "kind", "state"), CANARY)]),
    (
        "shares --hours 2",
        "share/history",
        {
            "gshare": CANARY,
            "width_s": 300,
            "names": [CANARY],
            "buckets": [{"begins_at": CANARY, "hs06": 1.0, "percent": {CANARY: 1.0}}],
        },
    ),
    ("config list --all", "config/list", [PARAMETER]),
]
#: verbs that take a file, that make many of `kill`, or that show nothing of others
ALIKE = {
    "finish", "retry", "incexec", "reactivate", "pause", "resume", "reassign", "avalanche", "release",
    "recover-lost-files", "increase-attempts", "set-priority", "set-share", "set-rule", "periodic resume",
    "set-need", "set-jumbo", "enable-job-cloning", "disable-job-cloning",
    "periodic end",
}  # fmt: skip
OF_FILES = {
    "submit", "periodic submit", "grid load", "groups load", "users load", "work-queues load", "work-queues set",
    "work-queues remove", "retry-rules load", "retry-rules set", "timeouts load", "catalogue import",
    "shares edit", "snapshot save",
    "snapshot task", "dry-run task-brokerage", "dry-run job-brokerage", "dry-run analysis-brokerage",
    "dry-run split", "dry-run shares", "dry-run task-queues",
}  # fmt: skip
OWN = {"secrets add-key", "commands", "events", "states", "schema", "task-parameters", "token", "pilots", "run", "demo",
       "settings", "logout", "migrate", "token rotate-key", "console", "open"}  # fmt: skip
#: `login` shows what a system and its issuer say (test_login.py); `report` writes a page (test_report.py)
ELSEWHERE = {"login", "report"}
ALL_READS = [(f"{verb} {arguments}".strip(), path, data) for verb, (arguments, path, data) in READS.items()] + FORMS
IN_JSON = [one for one in ALL_READS if "--ids" not in one[0]]


def not_seen(text: str, allowed: str = "\n") -> set[str]:
    """Characters that a terminal would act on, or not draw."""
    return {one for one in text if not one.isprintable() and one not in allowed}


def is_text(out: str, allowed: str = "\n") -> bool:
    """Whether the canary did nothing: no character acts, no line is forged, no markup was read."""
    forged = [line for line in out.splitlines() if line.strip().startswith("FORGED")]
    return not not_seen(out, allowed) and not forged and "💣" not in out


def test_every_verb_is_either_tried_here_or_shows_nothing_that_others_wrote() -> None:
    known = {name for name, _ in verbs(command_line()) if name}
    assert known == {*READS, *ALIKE, *OF_FILES, *OWN, *ELSEWHERE}


@pytest.mark.parametrize("columns", ["9000", "60"])
@pytest.mark.parametrize(("command", "path", "data"), ALL_READS, ids=[one[0] for one in ALL_READS])
def test_a_verb_shows_what_others_wrote_as_text(services, orrery, monkeypatch, columns, command, path, data) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    services.says(path, data, message=CANARY)
    found = orrery(*command.split())
    out, of_lines = found.out + found.err, data == {"text": CANARY}  # the service writes each of its lines as one
    assert services.asked(path) and not not_seen(out, "\n\t" if of_lines else "\n")
    if columns == "9000":  # where nothing is folded
        assert of_lines or is_text(out)
        assert "[red]r[/red][link=http://x]:bomb:" in out or SEEN not in out


@pytest.mark.parametrize(("command", "path", "data"), IN_JSON, ids=[one[0] for one in IN_JSON])
def test_json_of_what_others_wrote_is_ascii_and_says_the_same(services, orrery, command, path, data) -> None:
    services.says(path, data, message=CANARY)
    found = orrery(*command.split(), "--json")
    assert found.out.isascii() and not not_seen(found.out + found.err)
    told = json.dumps(json.loads(found.out))
    assert json.dumps(CANARY)[1:-1] in told or path == "harvester/add_target_slots"


@pytest.mark.parametrize("status", [400, 403, 404, 500])
@pytest.mark.parametrize("command", ["tasks", "kill 7", "explain task 7", "jobs", "kill-job 1", "cordon Q --reason x"])
def test_a_refusal_shows_what_is_in_it_as_text(services, orrery, command, status) -> None:
    problems = [{"file": CANARY, "key": CANARY, "field": CANARY, "value": CANARY, "allowed": CANARY}] * 2
    answer = {"success": False, "message": CANARY, "data": None, "problems": problems}
    for body in (answer, {**answer, "problems": []}, CANARY):
        services.answers = dict.fromkeys(
            ("task/list", "task/kill", "explain/task", "job/list", "job/kill", "grid/cordon"), (status, body)
        )
        if isinstance(body, str):
            services.answers = {path: (status, body.replace("\ud800", "")) for path in services.answers}
        for form in (command, f"{command} --json"):
            found = orrery(*form.split())
            assert found.code != 0 and is_text(found.out + found.err), (form, found)


def test_the_output_of_a_job_keeps_its_lines_and_tabs_and_nothing_else(services, orrery) -> None:
    services.says("job/get_stdout", {"stdout": f"one\n\ttwo\r\n{CANARY}", "reported_at": WHEN})
    found = orrery("jobs", "--stdout", "1")
    assert found.out.startswith("one\n\ttwo\\r\n" + SEEN) and "[red]r[/red][link=http://x]:bomb:" in found.out
    assert not not_seen(found.out, "\n\t")


def test_names_in_the_file_of_a_task_are_shown_as_text(services, orrery, tmp_path) -> None:
    file = tmp_path / "task.json"
    file.write_text(json.dumps({"taskName": CANARY}))
    services.says("task/submit", 7, message=CANARY)
    found = orrery("submit", str(file))
    assert is_text(found.out) and SEEN in found.out
    services.says("task/submit", None, message=CANARY, success=False, status=400)
    found = orrery("submit", str(file))
    assert is_text(found.out + found.err) and SEEN in found.err


def observation() -> tuple[TaskCounts, Observation]:
    task = TaskCounts(7, CANARY, CANARY, says=CANARY, jobs={CANARY: 1})  # type: ignore[arg-type]
    return task, Observation(at_s=1.0, tasks=(task,), queues=(QueueLoad(CANARY, {"running": 1}),), unanswered=1)


@pytest.mark.parametrize("live", [True, False])
def test_the_demonstration_draws_what_others_wrote_as_text(live: bool) -> None:
    file = io.StringIO()
    shown = Screen(file=file, width=150, force_terminal=live)
    display = LiveDisplay(shown) if live else PlainDisplay(shown)
    _, seen = observation()
    with display:
        display.say(CANARY)
        display.show(seen)
    own = re.compile(r"\x1b\[[0-9;]*[mAK]|\x1b\[\?25[lh]|\r")  # colours, the line above, the cursor hidden and shown
    assert is_text(own.sub("", file.getvalue())) and SEEN in file.getvalue()


def test_a_screen_writes_no_character_that_acts_even_of_a_cell_that_was_not_made_visible() -> None:
    file = io.StringIO()
    task, seen = observation()
    table = task_table([task], seen)
    table.columns[1]._cells[0] = CANARY
    Screen(file=file, width=200, force_terminal=True, color_system=None).print(table, CANARY)
    assert not not_seen(file.getvalue())
    assert str(cell("x\n\x1b")) == r"x\n\x1b" and "[red]" in file.getvalue()


def test_only_the_output_of_the_command_line_writes_to_the_terminal() -> None:
    folder = Path(services_cli.__file__).parent
    may = {"output.py", "app.py", "one_process.py", "readme.py"}  # its own words alone: settings, old documents
    writes = re.compile(r"\btyper\.echo\(|(?<![.\w])print\(|std(out|err)\.write|\bConsole\(|\bfrom_markup\(")
    found = {path.name for path in folder.rglob("*.py") if writes.search(path.read_text(encoding="utf-8"))}
    assert found <= may
