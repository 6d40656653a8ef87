"""Sites, and one site with its queues: what they did in a day, whom they refused, which pilots left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from starlette.routing import Route

from services.console.api.queues import row_of
from services.console.api.visits import Console, Visit
from services.console.policy.series import hours_of
from services.console.showing.pages import Page

SUMMED = ("activated", "running", "waiting")


def routes(console: Console) -> list[Route]:
    return [console.page("sites", sites, ("q",)), console.page("sites/{site:path}", site)]


async def sites(visit: Visit) -> Page:
    """List all of them, or those with a text in their name, with the jobs of their queues."""
    wanted = visit.word("q")[:100]
    found = await visit.api.parts(sites=visit.api.get("grid/sites"), queues=visit.api.get("grid/queues"))
    queues = [row_of(one) for one in found.data["queues"] or []]
    rows = [{**one, **_summed(queue for queue in queues if queue["site"] == one["site"])}
            for one in found.data["sites"] or [] if wanted.lower() in one["site"].lower()]  # fmt: skip
    data = {"q": wanted, "sites": rows}
    return Page("sites.html", "Sites", "orrery queues", data, found.away, refresh_s=60)


def _summed(queues: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    some = list(queues)
    return {name: sum(one[name] for one in some) for name in SUMMED}


async def site(visit: Visit) -> Page:
    """Show its queues with their jobs, its storages, and what was refused there in the last hour."""
    name = visit.request.path_params["site"]
    found = await visit.api.parts(
        explained=visit.api.get("explain/site", site=name),
        sites=visit.api.get("grid/sites"),
        queues=visit.api.get("grid/queues"),
    )
    known = next((one for one in found.data["sites"] or [] if one["site"] == name), None)
    queues = [row_of(one) for one in found.data["queues"] or [] if one["site"] == name]
    explained = found.data["explained"]
    data = {"site": name, "known": known, "queues": queues, "explained": explained}
    shown = {"hours": hours_of(explained["day"], visit.now) if explained else [], **(explained or {}), **data}
    return Page(
        "site.html", f"Site {name}", "orrery queues; orrery explain queue NAME", data, found.away, shown, refresh_s=60
    )
