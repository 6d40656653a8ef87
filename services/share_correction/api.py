"""What people ask about shares, and how operators load a tree."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, FastAPI
from pydantic import BaseModel, ConfigDict

from services.share_correction import store
from services.share_correction.policy.tree import Node, normalised
from shared.auth import Authority, Caller
from shared.auth.web import install, require
from shared.db.database import Database
from shared.events import SharesCorrected
from shared.model.problems import Problem
from shared.model.share import Share, shares_from_list
from shared.web.json_route import JsonRoute

Operator = Annotated[Caller, Depends(require("operator"))]
Anyone = Annotated[Caller, Depends(require("user", "production"))]


class Envelope(BaseModel):
    """The reply of every endpoint; refusals are HTTP 200 with success false (401 and 403 excepted)."""

    success: bool
    message: str = ""
    data: Any = None


class LoadRequest(BaseModel):
    """The content of a shares.json: nodes with name, value, parent and the expressions that tasks must match."""

    model_config = ConfigDict(extra="forbid")
    shares: list[dict[str, Any]]


def web_application(database: Database, authority: Authority) -> FastAPI:
    """Routes under /api/v1/share; the runtime adds /livez, /readyz and /metrics."""
    web = FastAPI(title="Orrery shares")
    web.router.route_class = JsonRoute
    install(web, authority)

    @web.get("/api/v1/share/list")
    async def list_shares(caller: Anyone) -> Envelope:
        """Each share: what is due to it (percent of everything), its correction, and what it runs now."""
        async with database.read() as connection:
            rows = [dict(row) async for row in store.QUERIES.list_shares(connection)]
            users = [dict(row) async for row in store.QUERIES.user_corrections(connection)]
        return Envelope(success=True, data={"shares": _explained(rows), "user_corrections": users})

    @web.post("/api/v1/share/load")
    async def load(caller: Operator, request: LoadRequest) -> Envelope:
        """Put this tree in the place of the present one, or refuse it with every problem."""
        problems: list[Problem] = []
        tree = shares_from_list(request.shares, problems)
        if not tree and not problems:
            problems.append(Problem("shares.json", "", "", "must name at least one share"))
        if problems:
            return _refused(problems)
        return await _load(database, caller, tree)

    return web


async def _load(database: Database, caller: Caller, tree: tuple[Share, ...]) -> Envelope:
    names = [share.name for share in tree]
    async with database.begin(reason=f"shares loaded by {caller.name}") as work:
        used = [row async for row in store.QUERIES.shares_in_use(work.connection, gshares=names)]
        if used:
            return _refused([
                Problem("shares.json", row["gshare"], "", f"is missing, but {row['n_tasks']} live tasks have it")
                for row in used
            ])  # fmt: skip
        version = await store.load_tree(work.connection, tree)
        await store.QUERIES.record_audit(
            work.connection, caller=caller.name, roles=sorted(caller.roles), verb="share load", target="shares",
            outcome="accepted", details={"shares": names, "version": version},
        )  # fmt: skip
        work.emit(SharesCorrected(shares_version=version))
    return Envelope(success=True, message=f"{len(tree)} shares loaded", data={"n_shares": len(tree)})


def _refused(problems: list[Problem]) -> Envelope:
    return Envelope(
        success=False, message="; ".join(str(problem) for problem in problems),
        data={"problems": [vars(problem) for problem in problems]},
    )  # fmt: skip


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
