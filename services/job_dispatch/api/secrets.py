"""/api/v1/creds/*: what people keep for the payloads of their tasks in one VO.

Everybody sees and changes their own only; it is encrypted in the database.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response
from pydantic import Field

from services.job_dispatch.api.body import HEARTBEAT, fields_of
from services.job_dispatch.api.job import body_of
from services.job_dispatch.api.requests import FAILED, BadRequest, RequestFields, Text, parse
from services.job_dispatch.rotating import Rotation
from services.job_dispatch.store import secrets as store
from services.job_dispatch.store.secrets import MOST_SECRETS, KeptSecret
from shared.auth import Caller, access, require
from shared.auth.access import Whose
from shared.auth.keyring import Keyring, NoKey
from shared.db.database import Database
from shared.model.problems import FieldProblem
from shared.model.secret_notes import ASKED
from shared.model.task_spec_problems import problem
from shared.web.envelope import BAD_REQUEST, NOT_FOUND, Envelope, refused
from shared.web.json_route import JsonRoute
from shared.web.values import Truth

ANYBODY = require(access.OWN, "user", "pilot", "production", "operator")
CHANGER = require(access.OWN, "user", "pilot", "production", "operator", right="modify")
OPERATOR = require(access.OPERATORS, "operator", right="modify")
LONGEST_VALUE = 50_000
LONGEST_VO = 16


class SetSecret(RequestFields):
    """`creds/set_user_secrets`: without a value the key is forgotten, without a key all of them.

    `vo`: for whose tasks; `for_pilots`: also for the pilots of queues that name the owner (PILOT_SECRETS).
    """

    key: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    value: Annotated[str, Field(max_length=LONGEST_VALUE)] | None = None
    vo: Text = None
    for_pilots: Truth = None


def secret_routes(database: Database, keyring: Keyring) -> APIRouter:
    """Make the routes for any caller, each about their own; operators have all of them encrypted anew."""
    router = APIRouter(route_class=JsonRoute, prefix="/api/v1/creds", tags=["secrets"])
    rotation = Rotation(database, keyring)

    @router.post("/set_user_secrets", openapi_extra=_BODY)
    async def set_secret(request: Request, caller: Annotated[Caller, Depends(CHANGER)]) -> Response:
        """Keep a value under a key, or forget the key; with neither, forget all keys. All for one VO."""
        fields = await fields_of(request, HEARTBEAT)
        wanted = parse(SetSecret, fields)
        vo = vo_of_secrets(caller, wanted.vo)
        if wanted.key is None:
            return await _forget_all(database, caller, vo, wanted, is_said="key" in fields)
        if wanted.value is None:
            async with database.begin(reason=f"secret of {caller.name} forgotten") as work:
                is_forgotten = await store.forget_secret(work.connection, caller.name, vo, wanted.key)
            return Envelope() if is_forgotten else refused(NOT_FOUND, f"{wanted.key}: there is no such key for {vo}")
        return await _keep(database, keyring, caller, vo, wanted.key, wanted.value, for_pilots=bool(wanted.for_pilots))

    @router.get("/get_user_secrets")
    async def get_secrets(
        caller: Annotated[Caller, Depends(ANYBODY)],
        keys: str | None = None,
        get_json: Truth = None,
        vo: str | None = None,
    ) -> Response:
        """Values by key: all of one VO, or those of the keys that are named with commas between them.

        As the text of a JSON object, which PanDA's client reads; with `get_json` as an object.
        """
        try:
            found = await read_secrets(database, keyring, caller, vo, keys)
        except NoKey as error:
            return refused(None, str(error))
        return Envelope(found if get_json else orjson.dumps(found).decode())

    @router.get("/list_user_secrets")
    async def list_secrets(caller: Annotated[Caller, Depends(ANYBODY)]) -> Response:
        """Keys without values, and what others tried: who asked for them, who changed a task that used them.

        Whoever asks does so for a VO of their own: the owner is told of every VO.
        """
        async with database.read() as connection:
            secrets = await store.listed_secrets(connection, caller.name)
            notes = await store.notes_for_owner(connection, caller.name)
        told = [one for one in notes if one["what"] == ASKED or _is_own(caller, one)]
        return Envelope({"secrets": [one for one in secrets if _is_own(caller, one)], "notes": told})

    @router.post("/rotate_key")
    async def rotate_key(request: Request, caller: Annotated[Caller, Depends(OPERATOR)]) -> Response:
        """Encrypt everything with the newest key, slice by slice; says which keys are needed no more."""
        try:
            done = await rotation.run(caller.name)
        except NoKey as error:
            return refused(None, str(error))
        return Envelope(done.as_sent(), done.sentence)

    return router


async def _keep(
    database: Database, keyring: Keyring, caller: Caller, vo: str, key: str, value: str, *, for_pilots: bool
) -> Response:
    try:
        secret = KeptSecret.sealing(keyring, caller.name, vo, key, value)
    except NoKey as error:
        return refused(None, str(error))
    async with database.begin(reason=f"secret of {caller.name}") as work:
        is_kept = await store.set_secret(work.connection, secret, for_pilots=for_pilots)
    if is_kept:
        return Envelope()
    allowed = f"at most {MOST_SECRETS} keys are kept"
    return refused(BAD_REQUEST, problems=[FieldProblem("key", key, allowed, f"key: {allowed}")])


async def _forget_all(database: Database, caller: Caller, vo: str, wanted: SetSecret, *, is_said: bool) -> Response:
    """Only who says null for both means it."""
    if not is_said or wanted.value is not None:
        allowed = "allowed: a text; null, without a value, forgets all keys"
        return refused(BAD_REQUEST, problems=[problem("key", wanted.key, allowed)])
    async with database.begin(reason=f"all secrets of {caller.name} forgotten") as work:
        n_keys = await store.forget_secrets(work.connection, caller.name, vo)
    return Envelope(None, f"{n_keys} keys are forgotten")


def _is_own(caller: Caller, row: Mapping[str, Any]) -> bool:
    return access.OWN.allows(caller, Whose.of(caller.name, str(row.get("vo") or "")))


async def read_secrets(
    database: Database, keyring: Keyring, caller: Caller, vo: str | None, keys: str | None
) -> dict[str, str]:
    """Values by key of the caller.

    Raises BadRequest without a VO, NoKey for a value that cannot be decrypted.
    """
    async with database.read() as connection:
        kept = chosen(await store.secrets_of(connection, caller.name, vo_of_secrets(caller, vo)), keys)
    found = {}
    for one in kept:
        try:
            found[one.key] = one.opened(keyring)
        except NoKey as error:
            raise NoKey(f"{one.key} cannot be decrypted: {error}") from None
    return found


def chosen(kept: Sequence[KeptSecret], keys: str | None) -> list[KeptSecret]:
    """Those of the keys that are named with commas between them; all where none is."""
    wanted = {one.strip() for one in (keys or "").split(",") if one.strip() not in ("", "None")}
    return [one for one in kept if not wanted or one.key in wanted]


def vo_of_secrets(caller: Caller, said: str | None) -> str:
    """For which VO: as the request says (`vo`, Origin), else the only one of the caller.

    Raises BadRequest.
    """
    vos = caller.vos
    if said and caller.is_of(said) and len(said) <= LONGEST_VO:
        return said
    if not said and vos is not None and len(vos) == 1:
        return next(iter(vos))
    listed = f"a VO of at most {LONGEST_VO} characters" if vos is None else ", ".join(sorted(vos)) or "none"
    allowed = f"allowed: {listed} (in this field or the header Origin)"
    raise BadRequest(FAILED, [problem("vo", said, allowed)])


_BODY = body_of({"key": "API_TOKEN", "value": "...", "vo": "atlas"}, SetSecret.model_json_schema())
