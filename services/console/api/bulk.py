"""One command on several tasks, or the kill of several jobs: first what it hits."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.routing import Route

from services.console.api.commands import given_in, inputs_of
from services.console.api.visits import Console, Done, Visit
from services.console.asking import Away, Refused
from services.console.policy.sessions import HOME
from services.console.showing.pages import Page
from services.console.signing import Said
from shared.model.whole_numbers import LARGEST_ID
from shared.states.job import FINAL

#: verbs that lists offer; each says on a page of its own what it does and hits
OFFERED = ("pause", "resume", "retry", "finish", "kill", "set-priority")
#: rows of a list of tasks, and of one of jobs
MOST_TASKS, MOST_JOBS = 100, 100
#: commands on their way at once
AT_ONCE = 5
#: ids that the command line is shown with
NAMED = 12
#: refusals that are told one by one
TOLD = 5


def routes(console: Console) -> list[Route]:
    return [
        console.page("tasks/commands", preview, ("command", "task", "shown", "all")),
        console.form("tasks/commands", give),
        console.page("jobs/kills", before_kill, ("job", "shown", "all")),
        console.form("jobs/kills", kill),
    ]


async def preview(visit: Visit) -> Page:
    """Say which of the chosen tasks a command would hit, with their jobs, and why it would not hit others."""
    verb, ids = visit.word("command"), _chosen(visit, "task", MOST_TASKS)
    if verb not in OFFERED:
        raise Refused(f"command: {verb[:40]!r}: allowed: {', '.join(OFFERED)}")
    found = await visit.api.get("task/preview_command", command=verb, task_ids=",".join(map(str, ids)))
    hit = [one for one in found["tasks"] if not one["refused"]]
    data = {"command": found["command"], "hit": hit, "not_hit": [one for one in found["tasks"] if one["refused"]]}
    shown = {
        "inputs": inputs_of(found["command"]),
        "ids": ",".join(str(one["task_id"]) for one in hit),
        "jobs": _summed(one["jobs"] for one in hit),
        "more_jobs": {state for one in hit for state in one["more_jobs"]},
    }
    title = f"{verb}: {len(hit)} {'task' if len(hit) == 1 else 'tasks'}"
    return Page("bulk.html", title, verb_on(verb, [one["task_id"] for one in hit]), data, shown=shown)


def verb_on(verb: str, ids: Sequence[int]) -> str:
    """What the command line does to these; a list that is cut says so, and never within an id."""
    return " ".join(["orrery", verb, *map(str, ids[:NAMED]), *(["..."] if len(ids) > NAMED else [])])


def _summed(counts: Any) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in counts:
        for state, n_jobs in one.items():
            found[state] = found.get(state, 0) + n_jobs
    return found


async def give(visit: Visit, fields: Mapping[str, str]) -> Done:
    """Give the command to each task that the page named, and tell how many took it."""
    verb, ids = fields.get("command", ""), _ids(fields.get("tasks", ""), "tasks", MOST_TASKS)
    if verb not in OFFERED:
        raise Refused(f"command: {verb[:40]!r}: allowed: {', '.join(OFFERED)}")
    command = (await visit.api.get("task/preview_command", command=verb, task_ids=str(ids[0])))["command"]
    body = given_in(command, fields)
    if reason := fields.get("reason", "").strip():
        body["reason"] = reason
    turns = asyncio.Semaphore(AT_ONCE)

    async def one(task_id: int) -> str:
        async with turns:
            try:
                await visit.api.post(f"task/{command['path']}", {"task_id": task_id, **body})
            except (Refused, Away) as error:
                return f"task {task_id}: {error}"
        return ""

    refusals = [said for said in await asyncio.gather(*map(one, ids)) if said]
    return Done(f"{HOME}tasks", _said(verb, "tasks", len(ids), refusals))


def _said(verb: str, what: str, n_all: int, refusals: Sequence[str]) -> Said:
    text = f"{verb}: {n_all - len(refusals)} of {n_all} {what}"
    if refusals:
        more = f"; {len(refusals) - TOLD} more" if len(refusals) > TOLD else ""
        text = f"{text}; not: {'; '.join(refusals[:TOLD])}{more}"
    return Said(text, good=not refusals)


async def before_kill(visit: Visit) -> Page:
    """Say which of the chosen jobs would be killed."""
    ids = _chosen(visit, "job", MOST_JOBS)
    rows = await visit.api.get("job/list", job_ids=",".join(map(str, ids)), limit=MOST_JOBS)
    hit = [one for one in rows if one["status"] not in FINAL and "withheld" not in one]
    known = {one["job_id"] for one in rows}
    ended = [one for one in rows if one["status"] in FINAL or "withheld" in one]
    data = {"hit": hit, "not_hit": ended, "not_there": [one for one in ids if one not in known]}
    shown = {"ids": ",".join(str(one["job_id"]) for one in hit)}
    title = f"Kill {len(hit)} {'job' if len(hit) == 1 else 'jobs'}"
    return Page("kills.html", title, verb_on("kill-job", [one["job_id"] for one in hit]), data, shown=shown)


async def kill(visit: Visit, fields: Mapping[str, str]) -> Done:
    """Kill them, and tell how many were."""
    ids = _ids(fields.get("jobs", ""), "jobs", MOST_JOBS)
    answer = await visit.api.post("job/kill", {"job_ids": ids})
    n_killed = sum(bool(one) for one in answer.data or [])
    refused = [answer.message] if n_killed < len(ids) and answer.message else []
    text = f"kill-job: {n_killed} of {len(ids)} jobs were killed{f'; {refused[0]}' if refused else ''}"
    return Done(f"{HOME}jobs", Said(text, good=n_killed == len(ids)))


def _chosen(visit: Visit, name: str, most: int) -> list[int]:
    """The rows that were ticked, or all that were shown. Raises Refused."""
    query = visit.request.query_params
    return _ids(visit.word("shown") if visit.word("all") else ",".join(query.getlist(name)), name, most)


def _ids(text: str, name: str, most: int) -> list[int]:
    words = [one.strip() for one in text.split(",") if one.strip()]
    wrong = [
        one for one in words if not (one.isascii() and one.isdigit() and len(one) < 20 and 0 < int(one) <= LARGEST_ID)
    ]
    if wrong or not words or len(words) > most:
        given = repr(wrong[0][:40]) if wrong else f"{len(words)} chosen"
        raise Refused(f"{name}: {given}: allowed: 1 to {most} ids; tick the rows of a list")
    return [*dict.fromkeys(map(int, words))]
