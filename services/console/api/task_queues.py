"""Task queues by priority, with every term of it."""

from __future__ import annotations

from typing import Any

from starlette.routing import Route

from services.console.api.visits import Console, Visit
from services.console.showing.pages import Page

ROWS = 100


def routes(console: Console) -> list[Route]:
    return [console.page("task-queues", task_queues, ("vo",))]


async def task_queues(visit: Visit) -> Page:
    """List those in which jobs wait for pilots, the highest priority first."""
    vo = visit.word("vo")[:16]
    found: dict[str, Any] = await visit.api.get("job/task_queues", vo=vo, limit=ROWS)
    verb = f"orrery task-queues --vo {vo}" if vo else "orrery task-queues"
    return Page("task_queues.html", "Task queues", verb, {"vo": vo, **found}, refresh_s=60)
