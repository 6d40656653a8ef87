"""/api/v1/catalogue: whose scopes are, what was refused in them, and what is opened for everybody."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated

from fastapi import APIRouter, Body, Depends
from pydantic import Field
from starlette.responses import Response

from services.task_definition.data.importing.files import like_of
from services.task_definition.data.importing.import_file import LONGEST_VO
from services.task_definition.data.policy.allowed_names import SCOPES, is_scope
from services.task_definition.data.store.scopes import SQL, list_scopes, refused_writes
from services.task_definition.desk.store.audit import audit
from shared.auth import Caller, access, require
from shared.auth.access import Whose
from shared.auth.configuration import LONGEST_NAME
from shared.catalogue.port import CatalogueReader
from shared.db.database import Database
from shared.db.unit_of_work import UnitOfWork
from shared.model.names import bare_name, owning_scope
from shared.model.task_spec_problems import problem
from shared.web.envelope import BAD_REQUEST, NOT_FOUND, Envelope, refused
from shared.web.json_route import JsonRoute
from shared.web.values import Page, Text

Anyone = Annotated[Caller, Depends(require(access.MEMBERS))]
Reader = Annotated[Caller, Depends(require(access.WRITERS))]
Producer = Annotated[Caller, Depends(require(access.WRITERS, "production", right="modify"))]
Operator = Annotated[Caller, Depends(require(access.OPERATORS, "operator", right="modify"))]
Scope = Annotated[str, Body(max_length=255)]
Vo = Annotated[str, Body(max_length=LONGEST_VO)]
Owner = Annotated[str, Body(max_length=LONGEST_NAME)]
Names = Annotated[list[Annotated[str, Field(max_length=300)]], Body(min_length=1, max_length=1000)]
Limit = Annotated[int, Page(10_000, 1000)]


def scope_routes(database: Database, catalogue: CatalogueReader) -> APIRouter:
    """Scopes, refused writes, readers."""
    router = APIRouter(route_class=JsonRoute, prefix="/api/v1/catalogue", tags=["catalogue"])

    @router.get("/scopes")
    async def scopes(caller: Anyone, scope: Text = None, limit: Limit = 1000) -> Response:
        """To whom scopes belong; * stands for any text."""
        async with database.read() as connection:
            return Envelope(await list_scopes(connection, caller, like_of(scope), limit))

    @router.post("/scope")
    async def give(caller: Operator, scope: Scope, vo: Vo, owner: Owner = "") -> Response:
        """A scope belongs to a VO ("": to none) and, of a user's, to a person from now on, whoever had it."""
        wrong = [] if is_scope(scope) and owning_scope(scope) == scope else [problem("scope", scope, _SCOPES)]
        if vo and not is_scope(vo):
            wrong.append(problem("vo", vo, f"allowed: {SCOPES}"))
        if wrong:
            return refused(BAD_REQUEST, "", wrong)
        async with database.begin(reason=f"scope given by {caller.name}") as work:
            by, details = caller.name, {"vo": vo, "owner": owner}
            await SQL.run(work.connection, "give_scope", scope=scope, vo=vo, owner=owner, claimed_by=by)
            verb, target = "catalogue.scope", f"scope:{scope}"
            await audit(work.connection, caller=caller, verb=verb, target=target, details=details)
        return Envelope({"scope": scope, **details}, f"{scope} belongs to {owner or 'production'} of {vo or 'no VO'}")

    @router.get("/refused")
    async def refused_(caller: Reader, limit: Limit = 1000) -> Response:
        """What others were about to write in scopes of the caller, or of VOs that the caller produces for."""
        async with database.read() as connection:
            return Envelope(await refused_writes(connection, caller, limit))

    @router.post("/readable")
    async def readable(caller: Producer, names: Names, by_all: Annotated[bool, Body()] = True) -> Response:
        """Members and tasks of every VO may read these datasets and containers, or no longer."""
        wanted = sorted({bare_name(one) for one in names})
        async with database.begin(reason=f"readers changed by {caller.name}") as work:
            missing = set(wanted) - await _written_by(caller, work, catalogue, wanted)
            if missing:
                allowed = "allowed: a dataset or container of a VO for which the caller has the role production"
                return refused(NOT_FOUND, "", [problem("names", one, allowed) for one in sorted(missing)])
            await SQL.run(work.connection, "open_datasets", names=wanted, by_all=by_all)
            if not by_all:
                await SQL.run(work.connection, "look_at_readers", names=wanted)
            details = {"names": wanted, "by_all": by_all}
            await audit(work.connection, caller=caller, verb="catalogue.readable", target="catalogue", details=details)
        return Envelope(details, f"{len(wanted)} {'opened for' if by_all else 'closed to'} other VOs")

    return router


_SCOPES = f"allowed: {SCOPES}; two fields where it begins with user or group, else one"


async def _written_by(caller: Caller, work: UnitOfWork, catalogue: CatalogueReader, names: Collection[str]) -> set[str]:
    """Of these names, those that are production's of the caller."""
    known = await catalogue.find(work.connection, list(names))
    return {one for one in names if one in known and access.WRITERS.allows(caller, Whose(vo=known[one].vo))}
