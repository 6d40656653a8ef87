"""`orrery tasks`, `orrery task ID`: what is there and how far it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from services.cli.commands.options import Json, Limit, TaskId, connect, help_text, rows_of
from services.cli.failures import WrongUsage
from services.cli.identifiers import read_ids
from services.cli.output import age, console, print_facts, print_ids, print_json, print_table, print_withheld, say
from services.task_definition.tasks.policy.large_numbers import written_out
from services.task_definition.tasks.policy.said import said_now
from shared.model.spans import seconds_of

COLUMNS = (
    ("task", "task_id"),
    ("status", "status"),
    ("progress", lambda task: f"{task['progress']}%" if task.get("progress") is not None else ""),
    ("priority", "current_priority"),
    ("share", "gshare"),
    ("nucleus", "nucleus"),
    ("user", "user_name"),
    ("changed", lambda task: age(task.get("state_change_time"))),
    ("name", "task_name"),
    ("says", lambda task: says(said_now(task) or task.get("held_back") or "", console().width)),
)
#: what is left out where a name beside it would have no room, and the characters that all columns need
ONLY_WHERE_WIDE, WIDE = ("priority", "share", "user"), 120
NEAREST_MISS = "nearest miss: "
#: characters: the least that is shown of what a task says, and those that the other columns take
SHORTEST_SAID, BESIDE_SAID = 60, 120
DATASET_COLUMNS = (
    ("dataset", "dataset_name"),
    ("type", "type"),
    ("status", "status"),
    ("files", "n_files"),
    ("open", "n_files_to_be_used"),
    ("used", "n_files_used"),
    ("finished", "n_files_finished"),
    ("failed", "n_files_failed"),
    ("on hold", "n_files_on_hold"),
    ("waiting", lambda row: row.get("n_files_waiting") or ""),
    ("events used", lambda row: f"{row.get('n_events_used') or 0}/{row['n_events']}" if row.get("n_events") else ""),
)
LIST = "List tasks, the newest first. In less than 120 characters priority, share and user are left out."
#: what is asked first of a task, and the words for it
_FIRST = {"task_id": "task", "task_name": "name", "status": "status"}
#: then who and what, where, how urgent, since when, what its jobs need; the rest follows by name
_ORDER = (
    "archived_at", "old_status", "retry_at", "held_back", "progress", "user_name", "submitted_by", "vo",
    "working_group", "task_type", "prod_source_label", "processing_type", "campaign", "parent_tid", "trans_path",
    "trans_uses", "trans_home",
    "architecture", "container_name", "gshare", "current_priority", "task_priority", "work_queue_id", "resource_type",
    "nucleus", "site", "cloud", "creation_date", "start_time", "state_change_time", "modification_time", "end_time",
    "core_count", "ram_count", "ram_unit", "base_ram_count", "cpu_time", "cpu_time_unit", "base_walltime", "walltime",
    "walltime_unit", "out_disk_count", "out_disk_unit", "work_disk_count", "work_disk_unit", "io_intensity",
    "io_intensity_unit", "max_attempt", "max_failure", "splitRule", "split_rule",
)  # fmt: skip
#: the id in the words of PanDA's client, besides ours
_AGAIN = ("jediTaskID",)
_LATER = ("datasets", "jobs", "parameters", "task_parameters", "transitions", "history", "decisions")


def says(text: str, width: int) -> str:
    """What a task says, the nearest miss first; all of it where the terminal is wide, else its beginning."""
    text = written_out(text)
    before, mark, miss = text.partition(NEAREST_MISS)
    told = f"{mark}{miss}; {before.rstrip('; ')}" if miss and before else text
    room = max(SHORTEST_SAID, width - BESIDE_SAID)
    return told if len(told) <= room else f"{told[: room - 3]}..."


def register(app: typer.Typer) -> None:
    app.command("tasks", help=help_text(LIST, "task_definition", "user"))(tasks)
    app.command("task", help=help_text("Show one task: facts, datasets, jobs by state.", "task_definition", "user"))(
        task
    )


def tasks(
    status: Annotated[
        str | None, typer.Option("--status", "-s", help="Only tasks in these states (comma-separated).")
    ] = None,
    user: Annotated[str | None, typer.Option("--user", "-u", help="Only tasks of this user.")] = None,
    waits: Annotated[
        str | None, typer.Option(help="Only tasks that wait for longer, in states that should pass: 15m, 1h, 2d.")
    ] = None,
    limit: Limit = 100,
    ids: Annotated[bool, typer.Option("--ids", help="Print ids only, one per line, for other verbs to read.")] = False,
    as_json: Json = False,
) -> None:
    """One line per task; in less than 120 characters without priority, share and user."""
    try:
        waits_longer_s = None if waits is None else seconds_of(waits)
    except ValueError as error:
        raise WrongUsage(f"--waits: value {waits!r}: {error}") from None
    asked = {"status": status, "user_name": user, "waits_longer_s": waits_longer_s, "limit": limit}
    data = connect().get("task_definition", "task/list", **asked)
    rows = rows_of(data, "tasks")
    if as_json:
        print_json(rows)
    elif ids:
        print_ids(rows, "task_id")
    else:
        wide = console().width >= WIDE
        print_table(rows, [one for one in COLUMNS if wide or one[0] not in ONLY_WHERE_WIDE])
        print_withheld(rows)


def task(
    task_id: TaskId,
    parameters: Annotated[bool, typer.Option("--parameters", help="Show the parameters as submitted, too.")] = False,
    as_json: Json = False,
) -> None:
    """Everything about one task."""
    client = connect()
    found = []
    for one in read_ids([task_id]):
        query = {"task_id": one, "include_parameters": parameters or None, "include_status": True}
        found.append(client.get("task_definition", "task/get_details", **query))
    if as_json:
        print_json(found[0] if len(found) == 1 else found)
        return
    for details in found:
        _show(details)


def _place(name: str) -> tuple[int, str]:
    """Where a fact of a task stands among the others."""
    return (_ORDER.index(name) if name in _ORDER else len(_ORDER)), name


def _show(details: Mapping[str, Any]) -> None:
    facts = details.get("task") if isinstance(details.get("task"), Mapping) else details
    assert isinstance(facts, Mapping)
    first = [*((label, facts.get(name)) for name, label in _FIRST.items()), ("reason", said_now(facts) or None)]
    rest = sorted({*facts} - {*_LATER, *_FIRST, *_AGAIN, "error_dialog"}, key=_place)
    print_facts([*first, *((name.replace("_", " "), facts[name]) for name in rest)])
    if details.get("datasets"):
        say()
        print_table(rows_of(details["datasets"]), DATASET_COLUMNS, title="datasets")
    if isinstance(details.get("jobs"), Mapping):
        say()
        print_facts([("jobs", ", ".join(f"{count} {state}" for state, count in details["jobs"].items()))])
    for name in ("parameters", "task_parameters"):
        if details.get(name):
            say()
            print_json(details[name])
