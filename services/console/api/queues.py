"""Queues, one queue with who runs and who was refused there, and its cordon."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from starlette.routing import Route

from services.console.api.visits import Console, Done, Visit
from services.console.asking import Refused
from services.console.policy import subjects
from services.console.policy.series import hours_of
from services.console.policy.sessions import HOME
from services.console.showing.pages import Page
from services.console.signing import Said

WAITING = ("pending", "defined", "assigned", "throttled")
ROWS = 200
#: how the list may be ordered
ORDERS = {"queue": "by name", "running": "most running first", "activated": "most activated first"}


def routes(console: Console) -> list[Route]:
    return [
        console.page("queues", queues, ("q", "order", "after")),
        console.form("queue-cordon", cordon),
        console.form("queue-uncordon", uncordon),
        console.page("queues/{queue:path}", queue, about=(subjects.queue("{queue}"), subjects.GRID)),
    ]


async def queues(visit: Visit) -> Page:
    """List those with a text in their name, site, status or type, so many on a page."""
    wanted, order, after = visit.word("q")[:100], visit.word("order") or "queue", visit.word("after")
    if order not in ORDERS:
        raise Refused(f"order: {order[:40]!r}: allowed: {', '.join(ORDERS)}")
    asked: dict[str, Any] = {"part": wanted, "order": order, "after": after, "limit": ROWS + 1, "records": "false"}
    rows = [row_of(one) for one in await visit.api.get("grid/queues", **asked)]
    data = {"q": wanted, "order": order, "queues": rows[:ROWS]}
    is_more = len(rows) > ROWS
    shown = {"orders": ORDERS, "after": after, "is_more": is_more,
             "next": rows[ROWS - 1]["queue"] if is_more and order == "queue" else ""}  # fmt: skip
    return Page("queues.html", "Queues", "orrery queues", data, shown=shown, refresh_s=60)


def row_of(one: Mapping[str, Any]) -> dict[str, Any]:
    kept = ("queue", "site", "status", "type", "cordon_reason", "running_workers", "n_slots", "last_pilot_at")
    return {**{name: one.get(name) for name in kept}, **loads_of(one.get("jobs") or {})}


def loads_of(jobs: Mapping[str, int]) -> dict[str, int]:
    """Jobs by state as lists show them."""
    waiting = sum(jobs.get(state, 0) for state in WAITING)
    return {"activated": jobs.get("activated", 0), "running": jobs.get("running", 0), "waiting": waiting}


async def queue(visit: Visit) -> Page:
    """Show limits, pilots, jobs by share, who is placed there, and what left it out in the last hour."""
    name = visit.request.path_params["queue"]
    found = await visit.api.get("explain/queue", queue=name)
    shown = {"hours": hours_of(found["day"], visit.now)}
    return Page("queue.html", f"Queue {name}", f"orrery explain queue {name}", found, shown=shown, refresh_s=30,
                about=(subjects.queue(found["queue"]["queue"]), subjects.GRID))  # fmt: skip


async def cordon(visit: Visit, fields: Mapping[str, str]) -> Done:
    """Close a queue for new work."""
    name, reason = fields.get("queue", ""), fields.get("reason", "").strip()
    if not reason:
        raise Refused("reason: is needed: it is shown to whoever asks why the queue takes nothing")
    await visit.api.post("grid/cordon", {"queue": name, "reason": reason})
    return Done(_address(name), Said(f"cordon: {name} takes no new work", good=True))


async def uncordon(visit: Visit, fields: Mapping[str, str]) -> Done:
    """Open it again."""
    name = fields.get("queue", "")
    await visit.api.post("grid/uncordon", {"queue": name})
    return Done(_address(name), Said(f"uncordon: {name} takes work again", good=True))


def _address(queue: str) -> str:
    return f"{HOME}queues/{quote(queue, safe='')}"
