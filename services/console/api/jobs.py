"""The list of jobs, one job with what it ran and what became of it, and its kill."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

from starlette.routing import Route

from services.console.api.visits import Console, Done, Visit
from services.console.asking import NotThere, Refused
from services.console.policy import subjects
from services.console.policy.filters import JOBS, Filter, read_filter
from services.console.policy.sessions import HOME
from services.console.showing.pages import Page
from services.console.signing import Said
from shared.states.job import FINAL, MEANINGS

ROWS = 100
STATES: Mapping[str, str] = {str(state): means for state, means in MEANINGS.items()}
#: what others are told has this key
WITHHELD = "withheld"
NOTHING = (None, "", "NULL", "0")
RAN = {"transformation": "runs", "jobPars": "with", "container_name": "container", "homepackage": "package",
       "swRelease": "release", "cmtConfig": "platform"}  # fmt: skip
REPORTED = {"node": "node", "pilot_id": "pilot", "cpu_consumption_time": "CPU time, s", "n_events": "events",
            "max_pss": "most memory (PSS), kB", "trans_exit_code": "exit code"}  # fmt: skip


def routes(console: Console) -> list[Route]:
    return [
        console.page("jobs", jobs, ("q", "before")),
        console.page("jobs/{job_id:id}", job, about=(subjects.job("{job_id}"),)),
        console.page("jobs/{job_id:id}/kill", before_kill),
        console.form("jobs/{job_id:id}/kill", kill),
    ]


async def jobs(visit: Visit) -> Page:
    """List jobs, the newest first."""
    wanted, before = read_filter(visit.word("q"), JOBS), visit.word("before")
    rows: list[dict] = []
    if not wanted.wrong:
        rows = await visit.api.get("job/list", limit=ROWS + 1, before_id=before, **wanted.asks)
    older = rows[ROWS - 1]["job_id"] if len(rows) > ROWS else None
    shown_rows = rows[:ROWS]
    data = {"q": wanted.text, "jobs": shown_rows, "older": older, "wrong": wanted.wrong}
    shown = {"words": JOBS, "before": before, "over": FINAL}
    return Page("jobs.html", "Jobs", _verb(wanted), data, shown=shown, status=400 if wanted.wrong else 200,
                about=[subjects.job(one["job_id"]) for one in shown_rows if WITHHELD not in one],
                is_list=not wanted.wrong, others="" if before or wanted.asks else subjects.NEW_JOBS)  # fmt: skip


def _verb(wanted: Filter) -> str:
    options = {"task_id": "--task", "status": "--status", "queue": "--queue", "like": "--like"}
    given = [f"{options[name]} {value}" for name, value in wanted.asks.items() if name in options]
    return " ".join(["orrery jobs", *given])


async def job(visit: Visit) -> Page:
    """Show its states with times, where it ran, what it read and wrote, and what it waits for."""
    job_id = visit.id("job_id")
    found = await visit.api.parts(
        job=_described(visit, job_id),
        explanation=visit.api.get("explain/job", job_id=job_id, queues=0),
        output=_output(visit, job_id),
    )
    one, chain = found.data["job"] or {}, (found.data["explanation"] or {}).get("chain") or []
    spec, report = one.get("spec") or {}, one.get("report") or {}
    shown = {
        "job_id": job_id,
        "ran": {said: spec[name] for name, said in RAN.items() if spec.get(name) not in NOTHING},
        "reported": {said: report[name] for name, said in REPORTED.items() if report.get(name) not in NOTHING},
        "inputs": _zipped(spec, file="inFiles", size="fsize", dataset="prodDBlocks"),
        "outputs": _outputs(spec, report),
        "meaning": STATES.get(str(one.get("status")), ""),
        "is_over": one.get("status") in FINAL,
        "relatives": (("It follows", [row for row in chain if row["place"] < 0]),
                      ("It is followed by", [row for row in chain if row["place"] > 0])),
    }  # fmt: skip
    verb = f"orrery job {job_id}; orrery explain job {job_id}; orrery logs {job_id}"
    return Page("job.html", f"Job {job_id}", verb, found.data, found.away, shown,
                refresh_s=0 if shown["is_over"] else 15,
                about=() if WITHHELD in one or not one else (subjects.job(job_id),))  # fmt: skip


async def _described(visit: Visit, job_id: int) -> dict[str, Any]:
    (found,) = await visit.api.get("job/get_description_incl_archive", job_ids=job_id)
    if found.get("task_id") is None:
        raise NotThere(f"there is no job {job_id}")
    told: dict[str, Any] = found
    return told


async def _output(visit: Visit, job_id: int) -> dict[str, Any] | None:
    """The end of its output; None where no pilot sent any, or it is not told to this person."""
    try:
        found: dict[str, Any] = await visit.api.get("job/get_stdout", job_id=job_id)
    except Refused:
        return None
    return found


def _zipped(spec: Mapping[str, Any], **fields: str) -> list[dict[str, str]]:
    """Rows of lists that stand beside each other in a specification, separated by commas."""
    lists = {name: str(spec.get(key) or "").split(",") for name, key in fields.items()}
    rows = [dict(zip(lists, values, strict=True)) for values in zip_longest(*lists.values(), fillvalue="")]
    return [row for row in rows if row["file"] not in NOTHING]


def _outputs(spec: Mapping[str, Any], report: Mapping[str, Any]) -> list[dict[str, Any]]:
    told = report.get("outputs") or {}
    rows = _zipped(spec, file="outFiles", dataset="destinationDblock", storage="ddmEndPointOut")
    return [
        {**row, "size": made.get("fsize"), "storage": made.get("endpoint") or row["storage"]}
        for row in rows
        for made in [told.get(row["file"]) or {}]
    ]


async def before_kill(visit: Visit) -> Page:
    """Say what a kill does, before it is done."""
    job_id = visit.id("job_id")
    one = await _described(visit, job_id)
    data = {"job": {name: one.get(name) for name in ("job_id", "task_id", "status", "queue", "withheld")}}
    shown = {"is_over": one.get("status") in FINAL}
    return Page("kill.html", f"Job {job_id}: kill", f"orrery kill-job {job_id}", data, shown=shown)


async def kill(visit: Visit, fields: Mapping[str, str]) -> Done:
    """Kill it, or say why not."""
    job_id = visit.id("job_id")
    answer = await visit.api.post("job/kill", {"job_ids": [job_id]})
    if not (answer.data or [False])[0]:
        raise Refused(answer.message or f"job {job_id} was not killed")
    return Done(f"{HOME}jobs/{job_id}", Said(f"kill-job: job {job_id} was killed", good=True))
