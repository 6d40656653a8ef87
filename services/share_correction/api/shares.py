"""What people ask about shares, and how operators load a tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Query
from pydantic import BaseModel, ConfigDict

from services.share_correction.collecting import HISTORY_S
from services.share_correction.explaining import Explanations
from services.share_correction.policy.tree_changes import changes, leaves_of
from services.share_correction.store import shares as store
from shared.auth import Caller, access
from shared.auth.reach import Reach
from shared.auth.web import require
from shared.db.database import Database
from shared.events import SharesCorrected
from shared.model.problems import Problem
from shared.model.share import Share, shares_from_list
from shared.order.tree import Node, normalised
from shared.web.envelope import Envelope, refused
from shared.web.json_route import JsonRoute

#: terms are kept for a week unless a parameter says otherwise
LONGEST_H = 8784.0
LONGEST_HISTORY_H = HISTORY_S / 3600.0
Operator = Annotated[Caller, Depends(require(access.OPERATORS, "operator", right="modify"))]
Anyone = Annotated[Caller, Depends(require(access.STATES, "user", "production"))]


class LoadRequest(BaseModel):
    """The content of a shares.json: nodes with name, value, parent and expressions that tasks must match."""

    model_config = ConfigDict(extra="forbid")
    shares: list[dict[str, Any]]
    #: only say what would change, or why it is refused
    dry_run: bool = False


def web_application(database: Database, explanations: Explanations) -> FastAPI:
    """Routes under /api/v1/share; the runtime adds /livez, /readyz and /metrics."""
    web = FastAPI(title="Orrery shares")
    web.router.route_class = JsonRoute

    @web.get("/api/v1/share/list")
    async def list_shares(caller: Anyone) -> Envelope:
        """Each share: what is due to it (percent of everything), its correction, and what it runs now.

        Corrections of users have names where the caller may read a task of theirs.
        """
        async with database.read() as connection:
            rows = [dict(row) for row in await store.SQL.rows(connection, "list_shares")]
            users = [
                dict(row) for row in await store.SQL.rows(connection, "user_corrections", **Reach.of(caller)._asdict())
            ]
        return Envelope({"shares": _explained(rows), "user_corrections": users})

    @web.get("/api/v1/share/explain")
    async def explain(
        caller: Anyone,
        gshare: Annotated[str | None, Query(max_length=64)] = None,
        hours: Annotated[float, Query(gt=0, le=LONGEST_H)] = 24.0,
    ) -> Envelope:
        """What each share is due and uses, who borrows, who is starved, and why it is corrected.

        With `gshare` only that share, with the terms of its corrections in the last `hours` and those of its users.
        """
        rows = await explanations.of_all()
        if gshare is None:
            return Envelope({"shares": rows})
        names = ", ".join(sorted(row["gshare"] for row in rows))
        rows = [row for row in rows if row["gshare"] == gshare]
        if not rows:
            problem = Problem("gshare", gshare, "", f"is not a share; allowed: {names or 'none is loaded'}")
            return _refused([problem])
        return Envelope({"shares": rows, **await explanations.over_time(gshare, hours * 3600.0, caller)})

    @web.post("/api/v1/share/load")
    async def load(caller: Operator, request: LoadRequest) -> Envelope:
        """Put this tree in the place of the present one, or refuse it with every problem; say what changes.

        It is checked against live tasks and applied in one transaction, which tells every dispatcher.
        """
        problems: list[Problem] = []
        tree = shares_from_list(request.shares, problems)
        if not tree and not problems:
            problems.append(Problem("shares.json", "", "", "must name at least one share"))
        if problems:
            return _refused(problems)
        return await _load(database, caller, tree, dry_run=request.dry_run)

    _add_history(web, explanations)
    return web


def _add_history(web: FastAPI, explanations: Explanations) -> None:
    @web.get("/api/v1/share/history")
    async def history(
        caller: Anyone,
        gshare: Annotated[str | None, Query(max_length=64)] = None,
        hours: Annotated[float, Query(gt=0, le=LONGEST_HISTORY_H)] = 24.0,
    ) -> Envelope:
        """What all shares used over time, or the users of one, in at most 24 buckets; the oldest first.

        Users of whom the caller may read nothing are told together, as `others`.
        """
        return Envelope(await explanations.history(gshare, hours * 3600.0, caller))


async def _load(database: Database, caller: Caller, tree: tuple[Share, ...], *, dry_run: bool) -> Envelope:
    async with database.begin(reason=f"shares loaded by {caller.name}") as work:
        different = changes(await store.tree(work.connection), tree)
        used = await store.SQL.rows(work.connection, "shares_in_use", leaves=leaves_of(tree))
        if used:
            return _refused([_in_use(row["gshare"], row["n_tasks"], tree) for row in used])
        if dry_run:
            return Envelope({"n_shares": len(tree), "changes": different}, "nothing was changed")
        version = await store.load_tree(work.connection, tree)
        await store.SQL.run(
            work.connection,
            "record_audit",
            caller=caller.name,
            roles=sorted(caller.roles),
            verb="share load",
            target="shares",
            outcome="accepted",
            details={"shares": [share.name for share in tree], "version": version, "changes": different},
        )
        work.emit(SharesCorrected(shares_version=version))
    return Envelope({"n_shares": len(tree), "changes": different}, f"{len(tree)} shares loaded")


def _in_use(gshare: str, n_tasks: int, tree: Sequence[Share]) -> Problem:
    what = "has shares below it" if any(share.name == gshare for share in tree) else "is missing"
    return Problem("shares.json", gshare, "", f"{what}, but {n_tasks} live tasks have it")


def _refused(problems: list[Problem]) -> Envelope:
    return refused({"problems": [one.as_sent() for one in problems]}, problems=problems)


def _explained(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows with `due_percent` and `corrected_percent` of everything."""
    nodes = [Node(row["gshare"], row["value"], row["parent"], row["correction_factor"]) for row in rows]
    due, corrected = normalised(nodes), normalised(nodes, corrected=True)
    return [
        {
            **row,
            "due_percent": round(due[row["gshare"]], 3),
            "corrected_percent": round(corrected[row["gshare"]], 3),
            "correction_factor": round(row["correction_factor"], 4),
        }
        for row in rows
    ]
