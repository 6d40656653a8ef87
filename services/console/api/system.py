"""The system, for operators: condition, parked messages, invariants, limits, who did what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from shlex import quote

from starlette.routing import Route

from services.console.api.bulk import verb_on
from services.console.api.visits import Console, Done, Visit
from services.console.asking import SLOW_TIMEOUT_S, NotThere, Refused
from services.console.policy.sessions import HOME
from services.console.showing.pages import Page
from services.console.signing import Said
from shared.events.catalogue import contract_rows

#: parked messages on one page: as many as one replay may name
MOST_PARKED, AUDIT_ROWS = 1000, 100
#: of these listed one by one
LISTED = 100


def routes(console: Console) -> list[Route]:
    return [
        console.page("system", condition),
        console.page("system/parked", parked),
        console.page("system/parked/chosen", chosen, ("parked_id", "consumer", "routing_key")),
        console.form("system/replay", replay),
        console.form("system/drop", drop),
        console.page("system/check", check),
        console.page("system/limits", limits),
        console.page("system/contracts", contracts),
        console.page("system/audit", audit, ("target", "before")),
    ]


async def condition(visit: Visit) -> Page:
    """Show what is away, stuck, slow and large."""
    found = await visit.api.get("condition", timeout_s=SLOW_TIMEOUT_S)
    return Page("system.html", "System", "orrery status", {"condition": found}, shown={"tab": "condition"},
                refresh_s=30)  # fmt: skip


async def parked(visit: Visit) -> Page:
    """List messages that could not be handled; by kind, too, so that one form replays all of one."""
    rows = await visit.api.get("bus/parked", limit=MOST_PARKED)
    kinds = Counter((one["consumer"], one["routing_key"]) for one in rows)
    shown = {"tab": "parked", "kinds": kinds.most_common(), "most": MOST_PARKED, "listed": LISTED}
    return Page("parked.html", "Parked messages", "orrery bus parked", {"parked": rows}, shown=shown)


async def chosen(visit: Visit) -> Page:
    """Say which messages a replay would send, or a drop forget.

    One, or all that a consumer put aside of a kind.
    """
    wanted = {name: visit.word(name) for name in ("parked_id", "consumer", "routing_key")}
    rows = await visit.api.get("bus/parked", limit=MOST_PARKED)
    found = [one for one in rows if all(str(one[name]) == text for name, text in wanted.items() if text)]
    if not found or not any(wanted.values()):
        raise NotThere("no such message is parked any more")
    ids = [one["parked_id"] for one in found]
    verb = f"{verb_on('bus replay', ids)}; {verb_on('bus drop', ids)} --reason WHY"
    return Page("parked_chosen.html", f"Parked messages: {len(found)}", verb, {"parked": found},
                shown={"tab": "parked", "listed": LISTED})  # fmt: skip


async def replay(visit: Visit, fields: Mapping[str, str]) -> Done:
    """Send messages to their consumer again."""
    ids = _ids_in(fields)
    answer = await visit.api.post("bus/replay", {"parked_ids": ids})
    n_replayed = len(answer.data["replayed"])
    return Done(f"{HOME}system/parked", Said(f"bus replay: {n_replayed} of {len(ids)} sent again", good=True))


async def drop(visit: Visit, fields: Mapping[str, str]) -> Done:
    """Forget messages; the audit log keeps what they were."""
    ids, reason = _ids_in(fields), fields.get("reason", "").strip()
    if not reason:
        raise Refused("reason: is needed: the audit log keeps it with what the message was")
    answer = await visit.api.post("bus/drop", {"parked_ids": ids, "reason": reason})
    return Done(f"{HOME}system/parked", Said(f"bus drop: {len(answer.data['dropped'])} forgotten", good=True))


def _ids_in(fields: Mapping[str, str]) -> list[int]:
    """The messages that a page named. Raises Refused."""
    words = fields.get("parked_ids", "").split(",")
    if not all(one.isascii() and one.isdigit() and len(one) < 19 for one in words):
        raise Refused(f"parked_ids: {fields.get('parked_ids', '')[:40]!r}: allowed: whole numbers with commas")
    return [int(one) for one in words]


async def check(visit: Visit) -> Page:
    """Run the invariants now: it takes a while where there is much."""
    found = await visit.api.get("check", timeout_s=SLOW_TIMEOUT_S)
    return Page("check.html", "Invariants", "orrery check", found, shown={"tab": "check"})


async def limits(visit: Visit) -> Page:
    """Show which time-out ends what, and how long what is kept."""
    found = await visit.api.parts(timeouts=visit.api.get("timeout/list"), retention=visit.api.get("retention"))
    verb = "orrery timeouts; orrery retention"
    return Page("limits.html", "Time-outs and retention", verb, found.data, found.away, {"tab": "limits"})


async def contracts(visit: Visit) -> Page:
    """Show which service states which event, and who works on it."""
    data = {"events": contract_rows()}
    return Page("contracts.html", "Events between services", "orrery events", data, shown={"tab": "contracts"})


async def audit(visit: Visit) -> Page:
    """List commands and who gave them, the newest first."""
    target, before = visit.word("target"), visit.word("before")
    rows = await visit.api.get("audit", target=target, before_id=before, limit=AUDIT_ROWS + 1)
    older = rows[AUDIT_ROWS - 1]["audit_id"] if len(rows) > AUDIT_ROWS else None
    data = {"target": target, "audit": rows[:AUDIT_ROWS], "older": older}
    verb = f"orrery audit {quote(target)}" if target else "orrery audit"
    return Page("audit.html", "Who did what", verb, data, shown={"tab": "audit", "before": before})
