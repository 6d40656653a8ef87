"""Whatever somebody sends to any route of any service: a refusal, never an error of ours."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from typing import Any

import httpx
import orjson
import pytest

from shared.auth import Authority
from shared.runtime.service import Context
from tests.handlers.every_service import LEGACY, NAMES, ROLES, client_of, routes_of, web_of, wrong_with

RUBBISH: dict[str, bytes] = {
    "empty": b"",
    "no JSON": b"{",
    "a text": b'"x"',
    "a list": b"[1, 2, 3]",
    "null": b"null",
    "deep": b'{"job_ids":' + b"[" * 30_000 + b"]" * 30_000 + b"}",
    "deep objects": b'{"task_parameters":' * 5_000 + b"1" + b"}" * 5_000,
    "deep in a text": b'{"job_id":1,"job_status":"finished","xml":' + orjson.dumps("[" * 20_000) + b"}",
    "half a character": b'{"task_id": 1, "reason": "\\ud800", "site_name": "\\udfff"}',
    "bytes": bytes(range(256)) * 20,
    "no number": b'{"job_ids": ["x", null, {}], "task_id": 1e400, "n_jobs": NaN}',
    "beyond 64 bits": b'{"job_ids": [99999999999999999999999], "task_id": 99999999999999999999999}',
    "names of nothing": b'{"\\u0000": "\\u0000", "key": [], "value": {}, "app": 7, "files": {"a": [[]]}}',
    "many": b'{"job_ids": [' + b"1," * 400_000 + b"1]}",
    "16 MB": b'{"job_ids": [' + b"1234567," * 2_000_000 + b"1]}",
    "300 000 outputs": b'{"job_id": 1, "job_status": "finished", "xml": {'
    + b",".join(b'"file%d": {}' % number for number in range(300_000))
    + b"}}",
    "unpacks to much": gzip.compress(b" " * 50_000_000),
    "broken gzip": gzip.compress(b"{}")[:-6],
}

#: what these routes answer with success, exactly, to an odd body: a job that nobody knows is to be killed, whatever
#: else is in the report; a queue that nobody knows gives no job, and hears so
ANSWERED: dict[str, Callable[[Any], bool]] = {
    "/api/v1/pilot/update_job": lambda data: data == {"StatusCode": 0, "command": "tobekilled"},
    "/api/v1/pilot/acquire_jobs": lambda data: (data["StatusCode"], data["jobs"]) == (20, []),
}


def is_fine(path: str, answer: httpx.Response) -> bool:
    """A refusal, or the one success that a route has for what is sent to it."""
    if path.startswith(LEGACY):
        return True  # what pilots cannot understand is found by `wrong_with`; odd fields cost themselves only
    said = answer.json()
    if not said.get("success"):
        return True
    return answer.status_code == 200 and path in ANSWERED and ANSWERED[path](said["data"])


@pytest.mark.parametrize("name", NAMES)
async def test_no_rubbish_is_an_error_of_ours(context: Context, authority: Authority, name: str) -> None:
    web = await web_of(context, authority, name)
    paths = [route.path for route in routes_of(web) if route.method == "POST"]
    failures = []
    async with client_of(web, authority.issue("somebody", ROLES)) as client:
        for path in paths:
            for kind in ("application/json", "application/x-www-form-urlencoded", "text/plain"):
                for rubbish, content in RUBBISH.items():
                    answer = await client.post(path, content=content, headers={"Content-Type": kind})
                    if (wrong := wrong_with(answer)) or not is_fine(path, answer):
                        failures.append((wrong, path, kind, rubbish, answer.status_code, answer.text[:200]))
    assert not failures, failures
