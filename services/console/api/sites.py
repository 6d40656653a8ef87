"""Sites, and one site with its queues: what they did in a day, whom they refused, which pilots left."""

from __future__ import annotations

from starlette.routing import Route

from services.console.api.queues import loads_of, row_of
from services.console.api.visits import Console, Visit
from services.console.policy.series import hours_of
from services.console.showing.pages import Page

ROWS = 200


def routes(console: Console) -> list[Route]:
    return [console.page("sites", sites, ("q", "after")), console.page("sites/{site:path}", site)]


async def sites(visit: Visit) -> Page:
    """List those with a text in their name, with the jobs of their queues, so many on a page."""
    wanted, after = visit.word("q")[:100], visit.word("after")
    rows = await visit.api.get("grid/sites", part=wanted, after=after, limit=ROWS + 1)
    data = {"q": wanted, "sites": [{**one, **loads_of(one["jobs"])} for one in rows[:ROWS]]}
    shown = {"after": after, "next": rows[ROWS - 1]["site"] if len(rows) > ROWS else ""}
    return Page("sites.html", "Sites", "orrery queues", data, shown=shown, refresh_s=60)


async def site(visit: Visit) -> Page:
    """Show its queues with their jobs, its storages, and what was refused there in the last hour."""
    name = visit.request.path_params["site"]
    found = await visit.api.parts(
        explained=visit.api.get("explain/site", site=name),
        sites=visit.api.get("grid/sites", site=name),
        queues=visit.api.get("grid/queues", site=name, records="false"),
    )
    known = next(iter(found.data["sites"] or []), None)
    queues = [row_of(one) for one in found.data["queues"] or []]
    explained = found.data["explained"]
    data = {"site": name, "known": known, "queues": queues, "explained": explained}
    shown = {"hours": hours_of(explained["day"], visit.now) if explained else [], **(explained or {}), **data}
    return Page(
        "site.html", f"Site {name}", "orrery queues; orrery explain queue NAME", data, found.away, shown, refresh_s=60
    )
