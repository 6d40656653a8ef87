"""The system, for operators: condition, parked messages, invariants, limits, who did what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from starlette.routing import Route

from services.console.api.visits import Console, Done, Visit
from services.console.asking import SLOW_TIMEOUT_S, Refused
from services.console.policy.sessions import HOME
from services.console.showing.pages import Page
from services.console.signing import Said
from shared.events.catalogue import contract_rows

#: parked messages on one page: as many as one replay may name
MOST_PARKED, AUDIT_ROWS = 1000, 100


def routes(console: Console) -> list[Route]:
    return [
        console.page("system", condition),
        console.page("system/parked", parked),
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
    shown = {"tab": "parked", "kinds": kinds.most_common(), "most": MOST_PARKED}
    return Page("parked.html", "Parked messages", "orrery bus parked", {"parked": rows}, shown=shown)


async def replay(visit: Visit, fields: Mapping[str, str]) -> Done:
    """Send one message to its consumer again, or all that this consumer put aside of one kind."""
    ids = await _wanted(visit, fields)
    answer = await visit.api.post("bus/replay", {"parked_ids": ids})
    n_replayed = len(answer.data["replayed"])
    return Done(f"{HOME}system/parked", Said(f"bus replay: {n_replayed} of {len(ids)} sent again", good=True))


async def drop(visit: Visit, fields: Mapping[str, str]) -> Done:
    """Forget a message; the audit log keeps what it was."""
    ids, reason = await _wanted(visit, fields), fields.get("reason", "").strip()
    if not reason:
        raise Refused("reason: is needed: the audit log keeps it with what the message was")
    answer = await visit.api.post("bus/drop", {"parked_ids": ids, "reason": reason})
    return Done(f"{HOME}system/parked", Said(f"bus drop: {len(answer.data['dropped'])} forgotten", good=True))


async def _wanted(visit: Visit, fields: Mapping[str, str]) -> list[int]:
    """The ids that a form names, or those of the kind that it names. Raises Refused."""
    if given := fields.get("parked_id", ""):
        if not (given.isascii() and given.isdigit() and len(given) < 19):
            raise Refused(f"parked_id: {given[:40]!r}: allowed: a whole number")
        return [int(given)]
    kind = fields.get("consumer", ""), fields.get("routing_key", "")
    rows = await visit.api.get("bus/parked", limit=MOST_PARKED)
    found = [one["parked_id"] for one in rows if (one["consumer"], one["routing_key"]) == kind]
    if not found:
        raise Refused("no message of this kind is parked any more")
    return found


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
    return Page("audit.html", "Who did what", "", data, shown={"tab": "audit", "before": before})
