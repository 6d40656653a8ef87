"""/server/panda/*: proxies, tokens, key pairs and secrets for pilots, and the types of resources.

Proxies and key pairs are files of `ORRERY_CREDENTIALS_DIRECTORY` (`proxies/NAME.pem`, `key_pairs/NAME`); runtime
parameters name who may have them. A token is renewed with a token key (`orrery token --key`).
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from services.job_dispatch.api.body import ACQUIRE, fields_of
from services.job_dispatch.api.failures import Endpoint, UnansweredRequest, enveloped
from services.job_dispatch.api.legacy_answers import always_json, as_pair, flat, pair, told
from services.job_dispatch.api.legacy_methods import LegacyMethod
from services.job_dispatch.api.requests import (
    INVALID,
    MISSING_KEY,
    OK,
    PERMISSION,
    PROXY_ERROR,
    ROLE,
    RequestFields,
    Text,
    parse,
)
from services.job_dispatch.api.secrets import read_secrets
from services.job_dispatch.parameters import KEY_PAIR_RECIPIENTS, PROXY_RECIPIENTS, RENEWED_TOKEN_S
from services.job_dispatch.store.secrets import letters_of
from shared.auth import Caller, NotAuthenticated, access, authentication_of, caller_of
from shared.auth.keyring import Keyring, NoKey
from shared.auth.named import is_named
from shared.config.parameters import Parameters
from shared.db.database import Database
from shared.model.problems import FieldProblem
from shared.snapshot import KnownGrid
from shared.web.envelope import Envelope
from shared.web.json_route import JsonRoute
from shared.web.refusals import NOT_PERMITTED, count_refused
from shared.web.values import Truth

LARGEST_FILE_BYTES = 100_000
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,100}")
_OTHERS = re.compile(r"[^A-Za-z0-9]+")
DEFAULT_PROXY = "default"


class GetProxy(RequestFields):
    """`getProxy`."""

    role: Text = None
    dn: Text = None

    @property
    def name(self) -> str:
        """The file: the person or `default`, and the role; all other signs than letters and digits are `_`."""
        parts = [_OTHERS.sub("_", one).strip("_")[:100] for one in (self.dn or DEFAULT_PROXY, self.role or "")]
        return ".".join(part for part in parts if part)


class GetKeyPair(RequestFields):
    """`getKeyPair`."""

    public_key_name: Annotated[str, Field(pattern=f"^{_FILE_NAME.pattern}$")]
    private_key_name: Annotated[str, Field(pattern=f"^{_FILE_NAME.pattern}$")]


class GetUserSecrets(RequestFields):
    """`get_user_secrets`."""

    keys: Text = None
    get_json: Truth = None
    vo: Text = None


def credential_methods(
    database: Database, grid: KnownGrid, parameters: Parameters, directory: Path | None, keyring: Keyring
) -> list[LegacyMethod]:
    """Make the methods by which pilots ask for what they need beside jobs.

    Proxies and key pairs for whoever is named or has the letter; a token for whoever has a key for it.
    """
    pilots, post, both = ("pilot", "production"), ("POST",), ("GET", "POST")
    anybody = ("user", *pilots)
    proxies, key_pairs = _proxies(database, parameters, directory), _key_pairs(database, parameters, directory)
    types, secrets = _resource_types(database, grid), _user_secrets(database, keyring)
    return [
        LegacyMethod("getProxy", post, proxies, always_json, access.NAMED, anybody),
        LegacyMethod("getKeyPair", post, key_pairs, always_json, access.NAMED, anybody),
        LegacyMethod("get_access_token", ("GET",), _renewal(parameters), always_json, access.OWN, ()),
        LegacyMethod("getResourceTypes", both, types, always_json, access.STATES, anybody),
        LegacyMethod("get_user_secrets", both, secrets, as_pair, access.OWN, anybody),
    ]


def renewal_routes(parameters: Parameters) -> APIRouter:
    """Make the route of the same renewal in the envelope of `/api/v1`."""
    router = APIRouter(route_class=JsonRoute, prefix="/api/v1/creds", tags=["credentials"])

    @router.get("/get_access_token")
    async def renew(request: Request, token_key: str = "", client_name: str | None = None) -> Response:
        """A fresh token of a pilot for its `token_key`, also when the token that it has is over."""
        token = _renewed(parameters, request, token_key)
        if isinstance(token, UnansweredRequest):
            allowed = "the token key of a pilot"
            return enveloped(replace(token, problems=[FieldProblem("token_key", "(not shown)", allowed, token.text)]))
        return Envelope({"StatusCode": OK, "userProxy": token})

    return router


def _proxies(database: Database, parameters: Parameters, directory: Path | None) -> Endpoint:
    async def get_proxy(request: Request) -> Response:
        """A proxy certificate in PEM form; its StatusCode is a number, as the pilot looks for the number 0."""
        wanted = parse(GetProxy, await fields_of(request, ACQUIRE))
        caller = caller_of(request)
        named = is_named(parameters.read(PROXY_RECIPIENTS), wanted.name, caller.name)
        if not named and not await _has_letter(database, caller, "p"):
            count_refused(request.scope, [NOT_PERMITTED])
            return always_json(
                UnansweredRequest(PERMISSION, f"{caller.name} is not among those who may have the proxy {wanted.name}")
            )
        text = await _file(directory, "proxies", f"{wanted.name}.pem")
        if text is None:
            return always_json(UnansweredRequest(PROXY_ERROR, f"there is no proxy {wanted.name}"))
        return flat({"StatusCode": OK, "errorDialog": "", "userProxy": text})

    return get_proxy


def _key_pairs(database: Database, parameters: Parameters, directory: Path | None) -> Endpoint:
    async def get_key_pair(request: Request) -> Response:
        """Both halves of a key pair."""
        wanted = parse(GetKeyPair, await fields_of(request, ACQUIRE))
        caller, names = caller_of(request), (wanted.public_key_name, wanted.private_key_name)
        configured = parameters.read(KEY_PAIR_RECIPIENTS)
        named = all(is_named(configured, name, caller.name) for name in names)
        if not named and not await _has_letter(database, caller, "k"):
            count_refused(request.scope, [NOT_PERMITTED])
            return always_json(
                UnansweredRequest(PERMISSION, f"{caller.name} is not among those who may have {' and '.join(names)}")
            )
        public, private = [await _file(directory, "key_pairs", name) for name in names]
        if public is None or private is None:
            return always_json(UnansweredRequest(MISSING_KEY, f"there is no key pair {' and '.join(names)}"))
        return flat({"StatusCode": OK, "publicKey": public, "privateKey": private})

    return get_key_pair


async def _has_letter(database: Database, caller: Caller, letter: str) -> bool:
    """Whether the caller's GRIDPREF gives what the configuration does not (JEDI: Special permission)."""
    async with database.read() as connection:
        return letter in await letters_of(connection, caller.name, caller.vos)


async def _file(directory: Path | None, folder: str, name: str) -> str | None:
    """A file of the directory for credentials; None where there is none."""
    if directory is None or not _FILE_NAME.fullmatch(name):
        return None
    path = directory / folder / name

    def read() -> str | None:
        try:
            return path.read_bytes()[:LARGEST_FILE_BYTES].decode()
        except (OSError, UnicodeDecodeError):
            return None

    return await asyncio.to_thread(read)


def _renewal(parameters: Parameters) -> Endpoint:
    async def get_access_token(request: Request) -> Response:
        """A fresh token of a pilot for its `token_key`, also when the token that it has is over.

        The pilot reads the answer as a Python literal, so it has texts and numbers only.
        """
        token = _renewed(parameters, request, request.query_params.get("token_key", ""))
        if isinstance(token, UnansweredRequest):
            return always_json(token)
        return flat({"StatusCode": OK, "errorDialog": "", "userProxy": token})

    return get_access_token


def _renewed(parameters: Parameters, request: Request, key: str) -> str | UnansweredRequest:
    authentication = authentication_of(request.scope)
    try:
        owner = authentication.key_owner(key, request.scope)
    except NotAuthenticated as error:
        return UnansweredRequest(INVALID, f"token_key: {error}")
    if not owner.may("pilot"):
        return UnansweredRequest(ROLE, f"token_key: {owner.name} has not the role pilot")
    try:
        lifetime_s = float(parameters.read(RENEWED_TOKEN_S))
        return authentication.authority.issue(
            owner.name, ["pilot"], sorted(owner.groups), lifetime_s=lifetime_s, rights=owner.rights
        )
    except PermissionError as error:
        return UnansweredRequest(PROXY_ERROR, f"no token can be issued here: {error}")


def _resource_types(database: Database, grid: KnownGrid) -> Endpoint:
    async def get_resource_types(request: Request) -> Response:
        """The classes of cores and memory; a limit that there is not is left out."""
        async with database.read() as connection:
            types = (await grid.grid(connection)).resource_types
        found: list[dict[str, Any]] = []
        for one in types:
            fields = {
                "resource_name": one.name,
                "mincore": one.min_cores,
                "maxcore": one.max_cores,
                "minrampercore": one.min_ram_per_core_mb,
                "maxrampercore": one.max_ram_per_core_mb,
            }
            found.append({name: value for name, value in fields.items() if value is not None})
        return told(request, {"StatusCode": OK, "ResourceTypes": found})

    return get_resource_types


def _user_secrets(database: Database, keyring: Keyring) -> Endpoint:
    async def get_user_secrets(request: Request) -> Response:
        """[true, values by key] of what the caller keeps."""
        fields = await fields_of(request, ACQUIRE) if request.method == "POST" else dict(request.query_params)
        wanted = parse(GetUserSecrets, fields)
        try:
            found = await read_secrets(database, keyring, caller_of(request), wanted.vo, wanted.keys)
        except NoKey as error:
            return pair(False, str(error))
        return pair(True, found)

    return get_user_secrets
