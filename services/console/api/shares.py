"""The tree of shares: what is due and used, who borrows and is starved, and why; one share over time."""

from __future__ import annotations

from shlex import quote
from typing import Any

from starlette.routing import Route

from services.console.api.visits import Console, Visit
from services.console.policy import subjects
from services.console.showing.pages import Page

HOURS = 24


def routes(console: Console) -> list[Route]:
    return [console.page("shares", shares, about=(subjects.SHARES,)), console.page("shares/{gshare:path}", share)]


async def shares(visit: Visit) -> Page:
    """Show each below its parent, with what is due, used and corrected."""
    found = await visit.api.parts(
        shares=visit.api.get("share/explain"),
        use=visit.api.get("share/history", hours=HOURS),
    )
    rows = found.data["shares"] = (found.data["shares"] or {}).get("shares") or []
    verb = f"orrery shares --explain; orrery shares --hours {HOURS}"
    return Page("shares.html", "Shares", verb, found.data, found.away, {"tree": _tree(rows)}, refresh_s=60,
                about=(subjects.SHARES,))  # fmt: skip


def _tree(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each share below its parent, with its depth."""
    below: dict[str | None, list[dict[str, Any]]] = {}
    names = {one["gshare"] for one in rows}
    for one in rows:
        below.setdefault(one["parent"] if one["parent"] in names else None, []).append(one)
    ordered, left = [], [(one, 0) for one in reversed(below.get(None, []))]
    while left:
        one, depth = left.pop()
        ordered.append({**one, "depth": depth})
        left += [(child, depth + 1) for child in reversed(below.pop(one["gshare"], []))]
    return ordered


async def share(visit: Visit) -> Page:
    """Show the correction of one share term by term over a day, and its users with theirs."""
    name = visit.request.path_params["gshare"]
    found = await visit.api.parts(
        share=visit.api.get("share/explain", gshare=name, hours=HOURS),
        use=visit.api.get("share/history", gshare=name, hours=HOURS),
    )
    return Page("share.html", f"Share {name}", f"orrery shares --explain {quote(name)}", found.data, found.away,
                {"gshare": name})  # fmt: skip
