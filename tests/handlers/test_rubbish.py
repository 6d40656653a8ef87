"""Whatever somebody sends to any route of any service: a refusal, never an error of ours."""

from __future__ import annotations

import dataclasses
import gzip

import httpx
import orjson
import pytest
from prometheus_client import CollectorRegistry

from services.cli.one_process import composition_roots
from shared.auth import Authority, install
from shared.runtime.service import Context
from shared.runtime.web import answer_database_errors
from shared.web.intake import bound_requests

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


@pytest.mark.parametrize("service", sorted(composition_roots()))
async def test_no_rubbish_is_an_error_of_ours(context: Context, authority: Authority, service: str) -> None:
    built = composition_roots()[service](dataclasses.replace(context, metrics=CollectorRegistry()))
    if built.web is None:
        pytest.skip(f"{service} has no routes of its own")
    web = built.web
    install(web, authority)
    answer_database_errors(web)
    bound_requests(web, built.body_limits)
    for action in built.on_start:
        await action()
    paths = [path for path, methods in web.openapi()["paths"].items() if "post" in methods]
    token = authority.issue("somebody", ["operator", "production", "pilot", "user"])
    failures = []
    transport = httpx.ASGITransport(web, raise_app_exceptions=False)
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(transport=transport, base_url="http://s", headers=headers) as client:
        for path in paths:
            for kind in ("application/json", "application/x-www-form-urlencoded", "text/plain"):
                for name, content in RUBBISH.items():
                    answer = await client.post(path, content=content, headers={"Content-Type": kind})
                    if answer.status_code == 200 and '"command":"tobekilled"' in answer.text:
                        continue  # a report of a job that nobody knows, whatever else is in it
                    if answer.status_code == 200 and '"jobs":[]' in answer.text:
                        continue  # an acquire for a queue that nobody knows gets no job and hears so
                    if answer.status_code >= 500 or answer.json().get("success"):
                        failures.append((path, kind, name, answer.status_code, answer.text[:200]))
    assert not failures, failures
