"""The list of tasks: its filter is its address, its pages go by the last id of the page before."""

from __future__ import annotations

from typing import Any

from starlette.routing import Route

from services.console.api.bulk import OFFERED
from services.console.api.visits import Console, Visit
from services.console.policy import subjects
from services.console.policy.filters import TASKS, Filter, quoted, read_filter
from services.console.showing.pages import Page

ROWS = 50
#: what others are told has this key
WITHHELD = "withheld"


def routes(console: Console) -> list[Route]:
    return [console.page("tasks", tasks, ("q", "before"))]


def presets(name: str) -> dict[str, str]:
    """Filters that one click writes."""
    return {
        "all": "",
        "mine": f"user={quoted(name)}",
        "running": "status=ready,scouting,scouted,running",
        "waiting": "status=pending,throttled,paused,staging,assigning",
        "needs a decision": "status=exhausted",
        "failed": "status=failed,broken",
        "done": "status=done,finished",
    }


async def tasks(visit: Visit) -> Page:
    """List tasks, the newest first."""
    wanted = read_filter(visit.word("q"), TASKS)
    before = visit.word("before")
    rows: list[dict] = []
    told = ""
    about: int | None = None  # how many there are, where there are more than are shown
    if not wanted.wrong:
        asked: dict[str, Any] = {"limit": ROWS + 1, "before_id": before, "jobs": "false"}
        quickly = "true" if "name" in wanted.asks else ""
        answer = await visit.api.answer("task/list", quickly=quickly, **asked, **wanted.asks)
        rows, told = answer.data, answer.message
        if before or len(rows) > ROWS:
            about = await visit.api.get("task/estimate", **wanted.asks)
    older = rows[ROWS - 1]["task_id"] if len(rows) > ROWS else None
    shown_rows = rows[:ROWS]
    data = {"q": wanted.text, "tasks": shown_rows, "older": older, "about": about, "wrong": wanted.wrong}
    shown = {"words": TASKS, "presets": presets(visit.session.name), "before": before, "offered": OFFERED, "told": told}
    return Page("tasks.html", "Tasks", _verb(wanted), data, shown=shown, status=400 if wanted.wrong else 200,
                about=[subjects.task(one["task_id"]) for one in shown_rows if WITHHELD not in one],
                is_list=not wanted.wrong, others="" if before or wanted.asks else subjects.NEW_TASKS)  # fmt: skip


def _verb(wanted: Filter) -> str:
    options = {"status": "--status {}", "user_name": "--user {}", "waits_longer_s": "--waits {}s"}
    given = [options[name].format(value) for name, value in wanted.asks.items() if name in options]
    return " ".join(["orrery tasks", *given])
