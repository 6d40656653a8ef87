"""`orrery job ID`, `orrery logs JOB`: one job, what it ran and reported, and its log."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any

import typer

from services.cli.client import Client
from services.cli.commands.options import Json, connect, help_text, rows_of
from services.cli.failures import CommandFailure, Refused, Unreachable
from services.cli.identifiers import read_ids
from services.cli.job_log import JobLog, fetch, log_of, members_of, text_of
from services.cli.output import age, print_facts, print_json, print_table, say, say_lines
from services.task_definition.tasks.policy.large_numbers import written_out

NOTHING = (None, "", "NULL", "0")
INPUT_COLUMNS = (("input", "file"), ("size", "size"), ("dataset", "dataset"), ("read from", "storage"))
OUTPUT_COLUMNS = (
    ("output", "file"),
    ("size", "size"),
    ("checksum", "checksum"),
    ("dataset", "dataset"),
    ("storage", "storage"),
)
HISTORY_COLUMNS = (
    ("ago", lambda row: age(row["at"])),
    ("state", lambda row: f"{row['from_status'] or ''} -> {row['to_status']}"),
    ("by", "actor"),
    ("because", "reason"),
)
MEASURED = {
    "node": "node", "pilot_id": "pilot", "cpu_consumption_time": "CPU s", "max_pss": "most memory (PSS, kB)",
    "n_events": "events", "trans_exit_code": "exit code",
}  # fmt: skip
JobId = Annotated[str, typer.Argument(metavar="JOB", help="A job id; - reads it from standard input.")]


def register(app: typer.Typer) -> None:
    does = "Show one job: command line, files, states, error, where its log is. Finished jobs come from the archive."
    app.command(
        "job", help=help_text(does, "job_dispatch, task_definition", "user (own jobs), production or operator")
    )(job)
    does = (
        "Fetch the log of a job into this directory and list what is in it; with FILE print that. Where it cannot be "
        "fetched, the end of the output is shown that debug mode brought."
    )
    app.command("logs", help=help_text(does, "job_dispatch", "user (own jobs), production or operator"))(logs)


def job(job_id: JobId, as_json: Json = False) -> None:
    """The whole row with --json."""
    client = connect()
    for one in read_ids([job_id]):
        described = _described(client, one)
        log, history = None, []
        if not described.get("withheld"):
            log = log_of(described, _endpoints(client))
            history = _history(client, one)
        if as_json:
            print_json({**described, "history": history, "log": None if log is None else vars(log)})
        else:
            _show(described, history, log)


def logs(
    job_id: JobId,
    file: Annotated[
        str | None, typer.Argument(metavar="[FILE]", help="A file of the log to print: pilotlog.txt, payload.stdout.")
    ] = None,
    folder: Annotated[Path, typer.Option("--to", metavar="DIR", help="Where to put it.")] = Path(),
    as_json: Json = False,
) -> None:
    """The log is left where it was put, so that a second call needs no storage."""
    client = connect()
    (one,) = read_ids([job_id])[:1]
    described = _described(client, one)
    if described.get("withheld"):
        raise Refused(f"job {one}: {described['withheld']}")
    log = log_of(described, _endpoints(client))
    archive = folder / Path(log.name).name if log is not None else None
    try:
        if log is None or archive is None:
            raise Refused(f"job {one} writes no log")
        if not archive.exists():
            archive = fetch(log, folder)
    except CommandFailure as refusal:
        _show_output(client, one, refusal, as_json)
        return
    if file is not None:
        say_lines(text_of(archive, file).rstrip("\n"))
        return
    members = [{"file": name, "size": size} for name, size in members_of(archive)]
    if as_json:
        print_json({"log": str(archive), "files": members})
        return
    say(str(archive))
    print_table(members, (("file", "file"), ("size", "size")))
    say(f"`orrery logs {one} FILE` prints one of them")


def _show_output(client: Client, job_id: int, refusal: CommandFailure, as_json: bool) -> None:
    """The end of the output, which debug mode brought; without it the refusal."""
    try:
        found = client.get("job_dispatch", "job/get_stdout", job_id=job_id)
    except Refused:
        raise refusal from None
    if as_json:
        print_json(found)
    else:
        say_lines(f"{str(found['stdout']).rstrip()}\n\nsent {age(found['reported_at'])} ago")


def _described(client: Client, job_id: int) -> dict[str, Any]:
    (found,) = rows_of(client.get("job_dispatch", "job/get_description_incl_archive", job_ids=[job_id]))
    if found.get("task_id") is None:
        raise Refused(f"there is no job {job_id}")
    return found


def _history(client: Client, job_id: int) -> list[dict[str, Any]]:
    """What the job went through; nothing where its row is gone and its specification is kept."""
    try:
        return rows_of(client.get("task_definition", "explain/job", job_id=job_id).get("history") or [])
    except Refused:
        return []


def _endpoints(client: Client) -> Mapping[str, Any]:
    """The storages of the grid, as pilots read them; none where they cannot be asked."""
    try:
        found = client.call("GET", "job_brokerage", "/cache/ddmendpoints.json")
    except (Refused, Unreachable):
        return {}
    return found if isinstance(found, Mapping) else {}


def _show(one: Mapping[str, Any], history: list[dict[str, Any]], log: JobLog | None) -> None:
    spec, report = one.get("spec") or {}, one.get("report") or {}
    say(f"job {one['job_id']} of task {one['task_id']}: {one.get('status') or 'forgotten; its specification is kept'}")
    print_facts(_facts(one))
    if one.get("withheld"):
        return
    error = " ".join(str(one[name]) for name in ("error_source", "error_code", "error_dialog") if one.get(name))
    if error:
        print_facts([("error", written_out(error))])
    if spec:
        say()
        say("command line")
        print_facts([
            (name, spec[key])
            for key, name in (
                ("transformation", "runs"), ("jobPars", "with"), ("container_name", "container"),
                ("homepackage", "package"), ("swRelease", "release"), ("cmtConfig", "platform"),
            )
            if spec.get(key) not in NOTHING
        ])  # fmt: skip
        _show_files(spec, report)
    measured = [(name, report.get(key)) for key, name in MEASURED.items() if report.get(key) not in NOTHING]
    if timing := _timing(report.get("pilot_timing")):
        measured.append(("took", timing))
    if measured:
        say()
        print_facts([("reported", f"{age(one.get('reported_at'))} ago"), *measured])
    if history:
        say()
        print_table(history, HISTORY_COLUMNS, title="states, the latest first")
    if log is not None:
        say()
        _say_log(one, log)


def _timing(text: Any) -> str:
    """What a pilot took for what (PanDA pilot protocol: pilotTiming). Example: stage in 64 s, payload 2541 s."""
    parts = str(text or "").split("|")
    named = zip(("get job", "stage in", "payload", "stage out", "setup"), parts, strict=False)
    return ", ".join(f"{name} {seconds} s" for name, seconds in named if seconds.strip().isdigit())


def _facts(one: Mapping[str, Any]) -> list[tuple[str, Any]]:
    attempt, cores = one.get("attempt_number"), one.get("core_count")
    return [
        ("says", one.get("withheld")),
        ("at", f"{one['queue']}/{one['resource_type']}" if one.get("queue") else None),
        ("kind", one.get("job_type")),
        ("attempt", f"{attempt}, priority {one.get('current_priority')}, {cores} cores" if attempt else None),
        ("share", one.get("gshare")),
        ("whose", f"{one.get('owner')} of {one.get('vo') or 'no VO'}" if one.get("owner") else None),
        ("worker", one.get("worker")),
        ("changed", f"{age(one['state_change_time'])} ago" if one.get("state_change_time") else None),
        ("heartbeat", f"{age(one['heartbeat_at'])} ago" if one.get("heartbeat_at") else None),
        ("told to do", one.get("command")),
    ]


def _show_files(spec: Mapping[str, Any], report: Mapping[str, Any]) -> None:
    inputs = _zipped(spec, file="inFiles", size="fsize", dataset="prodDBlocks")
    outputs = _zipped(spec, file="outFiles", dataset="destinationDblock", storage="ddmEndPointOut")
    told = report.get("outputs") or {}
    for row in outputs:
        made = told.get(row["file"]) or {}
        row |= {
            "size": made.get("fsize", ""),
            "checksum": made.get("adler32", ""),
            "storage": made.get("endpoint") or row["storage"],
        }
    for row in inputs:
        row["storage"] = spec.get("ddmEndPointIn")
    for rows, columns in ((inputs, INPUT_COLUMNS), (outputs, OUTPUT_COLUMNS)):
        if rows:
            say()
            print_table(rows, columns)


def _zipped(spec: Mapping[str, Any], **fields: str) -> list[dict[str, Any]]:
    """Rows of lists that stand beside each other in a specification, separated by commas."""
    lists = {name: str(spec.get(key) or "").split(",") for name, key in fields.items()}
    rows = [dict(zip(lists, values, strict=True)) for values in zip_longest(*lists.values(), fillvalue="")]
    return [row for row in rows if row["file"] not in NOTHING]


def _say_log(one: Mapping[str, Any], log: JobLog) -> None:
    has_ended = one.get("status") in ("finished", "failed", "closed", "cancelled", "merging", "transferring")
    where = ", ".join(log.storages) or "nowhere"
    say(f"log: {log.scope}:{log.name}, {'at' if has_ended else 'will be at'} {where}")
    for url in log.urls:
        say(f"  {url}")
    if has_ended:
        say(f"  `orrery logs {one['job_id']}` fetches it")
