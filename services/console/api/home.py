"""Home: what needs you, and the system; and the search."""

from __future__ import annotations

from collections.abc import Awaitable
from datetime import timedelta
from typing import Any

from starlette.routing import Route

from services.console.api.visits import Console, Visit
from services.console.asking import SLOW_TIMEOUT_S, Away, Refused
from services.console.policy.filters import TO_BE_FOUND, can_be_found, quoted
from services.console.showing.pages import Page
from shared.model.whole_numbers import LARGEST_ID

#: tasks of each kind that are listed
SHOWN = 10
FAILED_WITHIN = timedelta(days=7)
WAITING = "pending,throttled,paused,staging"
MOST_CHARACTERS = 300


def routes(console: Console) -> list[Route]:
    return [console.page("", home), console.page("search", search, ("q",))]


async def home(visit: Visit) -> Page:
    """Show two columns, nothing else."""
    own: dict[str, Any] = {"user_name": visit.session.name, "counts": "false"}
    since = (visit.now - FAILED_WITHIN).isoformat()
    get = visit.api.get
    questions = {
        "exhausted": get("task/list", status="exhausted", limit=SHOWN, **own),
        "failed": get("task/list", status="failed,broken", since=since, limit=SHOWN, **own),
        "waiting": get("task/longest", status=WAITING, limit=SHOWN, user_name=visit.session.name),
    }
    if visit.session.is_operator:
        questions["condition"] = get("condition", timeout_s=SLOW_TIMEOUT_S)
    found = await visit.api.parts(**questions)
    data = {"condition": None, **found.data}
    return Page("home.html", "Home", f"orrery tasks --user {visit.session.name}; orrery status", data, found.away,
                refresh_s=30)  # fmt: skip


async def search(visit: Visit) -> Page:
    """Find the task and job of a number, and what has a text in its name."""
    wanted = visit.word("q")[:MOST_CHARACTERS]
    data: dict[str, Any] = {"q": wanted, "tasks": [], "jobs": [], "queues": [], "people": [], "datasets": []}
    shown: dict[str, Any] = {"too_short": "", "told": [], "quoted": quoted(wanted)}
    if not wanted:
        return Page("search.html", "Search", "orrery tasks", data, shown=shown)
    if wanted.isascii() and wanted.isdigit() and len(wanted) < 19 and 0 < int(wanted) <= LARGEST_ID:
        found = await visit.api.parts(
            jobs=_jobs(visit, int(wanted)),
            tasks=_task(visit, int(wanted)),
        )
    else:
        questions: dict[str, Awaitable[Any]] = {
            "queues": _queues(visit, wanted),
            "people": visit.api.get("task/list", user_name=wanted, limit=SHOWN, counts="false"),
        }
        if can_be_found(wanted):
            questions |= {
                "tasks": _quickly(visit, shown, "task/list", name=wanted, counts="false"),
                "datasets": _quickly(visit, shown, "catalogue/datasets", name=_pattern(wanted)),
            }
        else:
            shown["too_short"] = TO_BE_FOUND
        found = await visit.api.parts(**questions)
    told = {name: rows or [] for name, rows in found.data.items()}
    verb = "orrery tasks; orrery jobs; orrery queues"
    return Page("search.html", f"Search: {wanted}", verb, data | told, found.away, shown)


def _pattern(wanted: str) -> str:
    return wanted if "*" in wanted else f"*{wanted}*"


async def _task(visit: Visit, task_id: int) -> list[dict[str, Any]]:
    try:
        explanation = await visit.api.get("explain/task", task_id=task_id, counts="false", queues=0)
    except Away:
        raise
    except Refused:
        return []
    return [explanation["task"]]


async def _quickly(visit: Visit, shown: dict[str, Any], path: str, **query: Any) -> Any:
    """Rows of a name; where not all were looked through, what is said about that is shown."""
    answer = await visit.api.answer(path, limit=SHOWN, quickly="true", **query)
    shown["told"] += [answer.message] if answer.message else []
    return answer.data


async def _jobs(visit: Visit, job_id: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = await visit.api.get("job/list", job_ids=job_id)
    return rows


async def _queues(visit: Visit, wanted: str) -> list[dict[str, Any]]:
    rows = await visit.api.get("grid/queues", part=wanted.strip("*")[:120], limit=SHOWN, records="false")
    return [{name: one[name] for name in ("queue", "site", "status")} for one in rows]
