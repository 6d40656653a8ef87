"""/api/v1/file_server and /cache/NAME: files that people upload for their payloads.

Who may submit may upload. Payloads fetch the files
without a token: the source URL that their job was told carries a permission for the archives of its task. What a caller
may not fetch is answered like what is not there.
"""

from __future__ import annotations

import re
import time
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Request
from starlette.convertors import Convertor, register_url_convertor
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from services.task_definition.desk.sandboxing import KnownSandbox, Sandboxes
from shared.auth import Caller, NotAuthenticated, access, caller_of, require
from shared.config.parameters import Parameters
from shared.model.task_spec_problems import problem
from shared.signed_sources import PATH, SourceKeys
from shared.signed_sources.parameters import SIGNED_SOURCES
from shared.web.envelope import NOT_FOUND, Envelope, refused
from shared.web.json_route import JsonRoute
from shared.web.problems import WrongRequest
from shared.web.uploads import uploaded_file

UPLOAD = "/api/v1/file_server/upload_cache_file"
#: the field of the form
FIELD = "file"
_NAME = r"[A-Za-z0-9][A-Za-z0-9._+-]{0,190}\.(?:gz|tgz|tar)"

Submitter = Annotated[Caller, Depends(require(access.OWN, "user", "production", right="submit"))]
Size = Annotated[int, Body(ge=0, le=2**40)]
Checksum = Annotated[int, Body(ge=0, lt=2**32)]


class SandboxName(Convertor[str]):
    """Names of uploaded files, which no other path under /cache has."""

    regex = _NAME

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("sandbox", SandboxName())


def upload_routes(sandboxes: Sandboxes) -> APIRouter:
    """Make the routes of people."""
    router = APIRouter(route_class=JsonRoute, prefix="/api/v1/file_server", tags=["files"])

    @router.post("/validate_cache_file")
    async def validate_cache_file(request: Request, caller: Submitter, file_size: Size, checksum: Checksum) -> Response:
        """Whether the caller has uploaded the same file before.

        The message is FOUND:HOST:NAME, or begins otherwise.

        The checksum is the CRC-32 of the content, which is 8 bytes before the end of a gzip file.
        """
        name = await sandboxes.same(caller, file_size, checksum)
        if name is None:
            return Envelope(None, "NOTFOUND: the file has to be uploaded")
        return Envelope(name, f"FOUND:{request.url.hostname}:{name}")

    @router.post("/upload_cache_file", openapi_extra=_FORM)
    async def upload_cache_file(request: Request, caller: Submitter) -> Response:
        """Upload a gzip file in a form, field `file`; data: its name, under which /cache has it."""
        async with uploaded_file(request, FIELD) as file:
            if re.fullmatch(_NAME, file.name) is None:
                allowed = "allowed: letters, digits and ._+- before .gz or .tgz"
                raise WrongRequest([problem("file", file.name, allowed)])
            await sandboxes.take(caller, file, _stated_size(request))
        return Envelope(file.name, f"{file.name} is stored")

    return router


def download_routes(sandboxes: Sandboxes, keys: SourceKeys, parameters: Parameters) -> list[Route]:
    """Make the routes that payloads call."""

    async def download(request: Request) -> Response:
        """The bytes of an uploaded file, by the rule SOURCES; for all where source URLs are not signed."""
        name = request.path_params["name"]
        if not parameters.read(SIGNED_SOURCES):
            return _answer(sandboxes, name, await sandboxes.of_anybody(name))
        try:
            caller = caller_of(request)
        except NotAuthenticated:
            return _answer(sandboxes, name, None)
        return _answer(sandboxes, name, await sandboxes.of_caller(name, caller))

    async def download_with_permission(request: Request) -> Response:
        """The bytes of an archive that the task of the permission names."""
        name = request.path_params["name"]
        task_id = keys.task_of(request.path_params["permission"], time.time())
        return _answer(sandboxes, name, None if task_id is None else await sandboxes.of_task(name, task_id))

    return [
        Route("/cache/{name:sandbox}", download, methods=["GET"]),
        Route(PATH + "/{permission}/cache/{name:sandbox}", download_with_permission, methods=["GET"]),
    ]


def _answer(sandboxes: Sandboxes, name: str, found: KnownSandbox | None) -> Response:
    if found is None:
        response = refused(NOT_FOUND, f"there is no file {name}: it was never uploaded, or not used for long")
        response.status_code = 404
        return response
    headers = {"Content-Length": str(found.size_bytes)}
    return StreamingResponse(sandboxes.content(found), headers=headers, media_type="application/gzip")


def _stated_size(request: Request) -> int | None:
    """The bytes of the form, which are at least those of the file; None where they are not said before."""
    stated = request.headers.get("content-length", "")
    return int(stated) if stated.isascii() and stated.isdigit() else None


_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": [FIELD],
    "properties": {FIELD: {"type": "string", "format": "binary"}},
}
_FORM = {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": _SCHEMA}}}}
