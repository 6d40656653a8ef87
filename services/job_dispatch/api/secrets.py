"""/api/v1/creds/*: what people keep for their payloads, and how it reaches a job that uses it.

Everybody sees and changes their own only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated

import orjson
from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response
from pydantic import Field

from services.job_dispatch.acquire.picks import Granted
from services.job_dispatch.api.body import HEARTBEAT, fields_of
from services.job_dispatch.api.job import body_of
from services.job_dispatch.api.requests import RequestFields, parse
from services.job_dispatch.parameters import PILOT_SECRETS
from services.job_dispatch.store.secrets import MOST_SECRETS, forget_secrets, secrets_of, set_secret
from shared.auth import Caller, require
from shared.auth.named import EVERYWHERE
from shared.config.parameters import Parameters
from shared.db.database import Database
from shared.model.problems import FieldProblem
from shared.model.task_spec_problems import problem
from shared.web.envelope import BAD_REQUEST, NOT_FOUND, Envelope, refused
from shared.web.json_route import JsonRoute
from shared.web.values import Truth

ANYBODY = require("user", "pilot", "production", "operator")
CHANGER = require("user", "pilot", "production", "operator", right="modify")
LONGEST_VALUE = 50_000


class SetSecret(RequestFields):
    """`creds/set_user_secrets`: without a value the key is forgotten, without a key all of them."""

    key: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    value: Annotated[str, Field(max_length=LONGEST_VALUE)] | None = None


class JobSecrets:
    """What the configuration has for the pilots of a queue: logins of their real-time logs.

    They go with every job. What a job's owner keeps comes with the claim. Neither is stored with the job, as
    specifications are shown to the members of the owner's VO.
    """

    def __init__(self, database: Database, parameters: Parameters) -> None:
        self._database = database
        self._parameters = parameters

    async def of_pilots(self, queue: str) -> dict[str, str]:
        """The logins; asked before a job is taken, which would be lost if they could not be read after."""
        configured = self._parameters.read(PILOT_SECRETS)
        keeper = (configured.get(queue) or configured.get(EVERYWHERE)) if isinstance(configured, Mapping) else None
        if keeper is None:
            return {}
        async with self._database.read() as connection:
            return await secrets_of(connection, str(keeper))


def with_logins(granted: Sequence[Granted], logins: Mapping[str, str]) -> Sequence[Granted]:
    """The same jobs with the logins in their specifications, if there are any."""
    if not logins:
        return granted
    specs = [{**orjson.loads(one.spec or "{}"), "pilotSecrets": logins} for one in granted]
    return [replace(one, spec=orjson.dumps(spec).decode()) for one, spec in zip(granted, specs, strict=True)]


class SecretsApi:
    """For any caller, each about their own."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def router(self) -> APIRouter:
        router = APIRouter(route_class=JsonRoute, prefix="/api/v1/creds", tags=["secrets"])
        router.add_api_route("/set_user_secrets", self.set_secret, methods=["POST"], openapi_extra=_BODY)
        router.add_api_route("/get_user_secrets", self.get_secrets, methods=["GET"])
        return router

    async def set_secret(self, request: Request, caller: Annotated[Caller, Depends(CHANGER)]) -> Response:
        """Keep a value under a key, or forget the key; with neither, forget all keys."""
        fields = await fields_of(request, HEARTBEAT)
        wanted = parse(SetSecret, fields)
        if wanted.key is None:
            return await self._forget_all(caller, wanted, is_said="key" in fields)
        async with self._database.begin(reason=f"secret of {caller.name}") as work:
            done = await set_secret(work.connection, caller.name, wanted.key, wanted.value)
        if done:
            return Envelope()
        if wanted.value is None:
            return refused(NOT_FOUND, f"{wanted.key}: there is no such key")
        allowed = f"at most {MOST_SECRETS} keys are kept"
        return refused(BAD_REQUEST, problems=[FieldProblem("key", wanted.key, allowed, f"key: {allowed}")])

    async def _forget_all(self, caller: Caller, wanted: SetSecret, *, is_said: bool) -> Response:
        """Only who says null for both means it."""
        if not is_said or wanted.value is not None:
            allowed = "allowed: a text; null, without a value, forgets all keys"
            return refused(BAD_REQUEST, problems=[problem("key", wanted.key, allowed)])
        async with self._database.begin(reason=f"all secrets of {caller.name} forgotten") as work:
            n_keys = await forget_secrets(work.connection, caller.name)
        return Envelope(None, f"{n_keys} keys are forgotten")

    async def get_secrets(
        self,
        request: Request,
        caller: Annotated[Caller, Depends(ANYBODY)],
        keys: str | None = None,
        get_json: Truth = None,
    ) -> Response:
        """Values by key: all, or those of the keys that are named with commas between them.

        As the text of a JSON object, which PanDA's client reads; with `get_json` as an object.
        """
        async with self._database.read() as connection:
            found = chosen(await secrets_of(connection, caller.name), keys)
        return Envelope(found if get_json else orjson.dumps(found).decode())


def chosen(kept: dict[str, str], keys: str | None) -> dict[str, str]:
    """Those of the keys that are named with commas between them; all where none is."""
    wanted = {one.strip() for one in (keys or "").split(",") if one.strip() not in ("", "None")}
    return {key: value for key, value in kept.items() if not wanted or key in wanted}


_BODY = body_of({"key": "API_TOKEN", "value": "..."}, SetSecret.model_json_schema())
