"""One task: its state and progress, why it waits, its decisions, its jobs over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from starlette.routing import Route

from services.console.api.visits import Console, Visit
from services.console.policy import reasons, subjects
from services.console.policy.needs import needs_of
from services.console.policy.sentences import goes_on, meaning_of, waits_of
from services.console.policy.series import series_of
from services.console.showing.pages import Page

#: jobs of which a picture is made, and rows of the table beside it
NEWEST_JOBS = 500
#: jobs of each state that are counted; that are looked at for where they are, and what they failed of
COUNT_TO, LOOKED_AT = 10_000, 2_000
#: queues that are shown of one check that is asked for
QUEUES_OF_ONE = 500
#: of the table of queues with jobs of a task
ROWS = 100
#: differences between two decisions that are listed
CHANGES = 100
#: a page without hints, or with one that was lost, is no older
REFRESH_S = 15
#: what others are told has this key, and names to whom the rest is told
WITHHELD = "withheld"
ABOUT = (subjects.task("{task_id}"),)
LATER = frozenset({"datasets", "jobs", "files", "task_parameters", "transitions", "split_rule", WITHHELD})
#: what is shown first, in groups; everything else is a list of columns below
FACTS: Mapping[str, Sequence[str]] = {
    "whose": ("user_name", "submitted_by", "vo", "working_group"),
    "work": ("task_type", "prod_source_label", "processing_type", "campaign", "trans_path", "container_name"),
    "order": ("gshare", "current_priority", "task_priority", "resource_type"),
    "where": ("nucleus", "site", "cloud"),
    "times": ("creation_date", "start_time", "state_change_time", "end_time"),
}


def routes(console: Console) -> list[Route]:
    return [
        console.page("tasks/{task_id:id}", task, about=ABOUT),
        console.page("tasks/{task_id:id}/why", why, ("decision", "check"), ABOUT),
        console.page("tasks/{task_id:id}/decisions", decisions, ("first", "second"), ABOUT),
        console.page("tasks/{task_id:id}/timeline", timeline, ("before",), ABOUT),
    ]


async def task(visit: Visit) -> Page:
    """Show what it is, how far it is, what failed, and what may be asked of it."""
    task_id, get = visit.id("task_id"), visit.api.get
    found = await visit.api.parts(
        task=get("task/get_details", task_id=task_id, include_parameters="true", count_to=COUNT_TO),
        explanation=get("explain/task", task_id=task_id, count_to=LOOKED_AT, queues=0),
        commands=get("task/get_commands", task_id=task_id),
    )
    details, explanation = found.data["task"], found.data["explanation"]
    status = (details or (explanation or {}).get("task") or {}).get("status")
    shown = {
        "facts": {name: {one: details.get(one) for one in some} for name, some in FACTS.items()} if details else {},
        "columns": {name: value for name, value in sorted((details or {}).items()) if name not in LATER},
        "meaning": meaning_of(details or {"status": status}, explanation),
        "waits": waits_of(explanation),
        "needs": needs_of(details or {}),
        "ends": (explanation or {}).get("ends"),
        "deadline": (explanation or {}).get("deadline"),
        "made": [one for one in (details or {}).get("datasets") or () if "n_bytes" in one],
        "tab": "overview",
        "count_to": LOOKED_AT,
        "rows": ROWS,
        "task_id": task_id,
    }
    return Page("task.html", f"Task {task_id}", f"orrery task {task_id}; orrery explain task {task_id}", found.data,
                found.away, shown, refresh_s=_refresh_s(status), about=_about(task_id, explanation))  # fmt: skip


async def why(visit: Visit) -> Page:
    """Show what left its queues out, by check, in the decision that holds it or in another one.

    Of each check a few queues, the nearest first; with `check` more of that one.
    """
    task_id, whole = visit.id("task_id"), visit.word("check")
    explanation = await visit.api.get(
        "explain/task",
        task_id=task_id,
        counts="false",
        queues=QUEUES_OF_ONE if whole else reasons.SHOWN,
        decision=reasons.ids_of(visit.word("decision")),
    )
    kept = explanation.get("decisions") or []
    chosen = _decision(kept, visit.word("decision")) or (kept[0] if kept else None)
    data = {
        "task": explanation["task"],
        "meaning": meaning_of(explanation["task"], explanation),
        "waits": list(explanation.get("waits") or ()),
        "generation": explanation.get("generation"),
        "messages": explanation.get("messages") or [],
        "decision": None if chosen is None else {name: chosen[name] for name in chosen if name != "queues"},
        "groups": [asdict(one) for one in reasons.grouped(chosen, whole)] if chosen else [],
        "passed": reasons.passed(chosen) if chosen else [],
        "more_passed": reasons.more_passed(chosen) if chosen else 0,
        "withheld": explanation["task"].get(WITHHELD),
    }
    shown = {"tab": "why", "task_id": task_id, "kept": kept, "whole": whole, "most": QUEUES_OF_ONE}
    return Page("why.html", f"Task {task_id}: why", f"orrery explain task {task_id} --all", data, shown=shown,
                refresh_s=_refresh_s(explanation["task"]["status"]), about=_about(task_id, explanation))  # fmt: skip


async def decisions(visit: Visit) -> Page:
    """List those that are kept, and what is different between two of them."""
    task_id, ids = visit.id("task_id"), reasons.ids_of(visit.word("first"), visit.word("second"))
    questions = {"explanation": visit.api.get("explain/task", task_id=task_id, counts="false", queues=0)}
    if len(ids) == 2:
        asked: dict[str, Any] = {"task_id": task_id, "first": ids[0], "second": ids[1], "limit": CHANGES}
        questions["compared"] = visit.api.get("explain/difference", **asked)
    found = await visit.api.parts(**questions)
    explanation, compared = found.data["explanation"] or {}, found.data.get("compared") or {}
    changes = compared.get("changes")
    data = {
        "task": explanation.get("task"),
        "decisions": [
            {name: one[name] for name in one if name not in ("queues", "by_check")}
            for one in explanation.get("decisions") or []
        ],
        "compared": [int(one) for one in ids] if changes is not None else [],
        "changes": None if changes is None else [asdict(one) for one in reasons.changes_of(changes)],
        "n_changes": compared.get("n_changes") or {},
        "withheld": (explanation.get("task") or {}).get(WITHHELD),
    }
    shown = {"tab": "decisions", "task_id": task_id, "not_alike": bool(compared) and changes is None}
    return Page("decisions.html", f"Task {task_id}: decisions", f"orrery explain task {task_id} --all", data,
                found.away, shown)  # fmt: skip


async def timeline(visit: Visit) -> Page:
    """Draw its newest jobs by state over time, with what happened to the task; older ones on demand."""
    task_id, before = visit.id("task_id"), visit.word("before")
    found = await visit.api.parts(
        explanation=visit.api.get("explain/task", task_id=task_id, counts="false", queues=0),
        jobs=visit.api.get("job/list", task_id=task_id, limit=NEWEST_JOBS + 1, before_id=before),
    )
    jobs, explanation = found.data["jobs"] or [], found.data["explanation"] or {}
    series = series_of(jobs[:NEWEST_JOBS], visit.now)
    data = {
        "task": explanation.get("task"),
        "n_jobs": min(len(jobs), NEWEST_JOBS),
        "series": series.rows(),
        "history": explanation.get("history") or [],
        "older": jobs[NEWEST_JOBS - 1]["job_id"] if len(jobs) > NEWEST_JOBS else None,
    }
    shown = {"tab": "timeline", "task_id": task_id, "picture": series, "before": before}
    return Page("timeline.html", f"Task {task_id}: timeline", f"orrery jobs --task {task_id} --limit 500", data,
                found.away, shown, refresh_s=0 if before else _refresh_s((explanation.get("task") or {}).get("status")),
                about=() if before else _about(task_id, explanation))  # fmt: skip


def _about(task_id: int, explanation: Mapping[str, Any] | None) -> Sequence[str]:
    """Hints are for whom the task is told in full."""
    told = (explanation or {}).get("task")
    return () if told is None or WITHHELD in told else (subjects.task(task_id),)


def _refresh_s(status: Any) -> int:
    return REFRESH_S if goes_on(status) else 0


def _decision(kept: Sequence[Mapping[str, Any]], wanted: str) -> Mapping[str, Any] | None:
    return next((one for one in kept if str(one["decision_id"]) == wanted), None)
