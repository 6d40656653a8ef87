"""schemathesis: every operation of every service's OpenAPI document, asked with what fits it and with what does not.

Each service listens on a socket; requests are made in a thread. The seed is fixed, so that a failure comes again.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import requests
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance

from shared.auth import Authority
from shared.runtime.service import Context
from shared.runtime.web import HttpServer
from shared.web.envelope import Envelope
from shared.web.service import install
from tests.handlers.every_service import NAMES, ROLES, routes_of, web_of

CHECKS = [not_a_server_error, content_type_conformance, response_schema_conformance]
#: requests of each operation: half of them as the document says, half of them not
EXAMPLES = 16
#: what changes who may call would end the run for all that comes after it
LEFT_OUT = {"/api/v1/token/revoke"}
#: a push asks every third operation
THIRDS = range(3)
QUIET = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    derandomize=False,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
    print_blob=False,
)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("nth", [pytest.param(nth, marks=pytest.mark.drawn(nth, len(THIRDS))) for nth in THIRDS])
@pytest.mark.parametrize("name", NAMES)
async def test_every_operation_answers_as_its_document_says_whatever_it_is_asked_and_by_whom(
    context: Context, authority: Authority, name: str, nth: int
) -> None:
    web = await web_of(context, authority, name)
    described = {route.path for route in routes_of(web)} - web.openapi()["paths"].keys()
    assert not described, "every route is in the document"
    tokens = [authority.issue("somebody", [role]) for role in ROLES] + [authority.issue("nobody", []), None]
    failures = await asked(web, tokens, nth, len(THIRDS))
    assert not failures, "\n\n".join(failures)


async def test_a_service_that_fails_or_answers_in_another_form_is_found_out(authority: Authority) -> None:
    web = FastAPI()

    @web.get("/api/v1/fails")
    async def fails(number: int) -> Envelope:
        return Envelope(1 // min(1, max(0, number)))

    @web.get("/api/v1/plain")
    async def plain() -> dict[str, int]:
        return {"number": 1}

    install(web, authority)
    failures = await asked(web, [None], 0, 1)
    assert sorted(one.partition(":")[0] for one in failures) == ["GET /api/v1/fails", "GET /api/v1/plain"]


async def asked(web: FastAPI, tokens: list[str | None], nth: int, of: int) -> list[str]:
    """What is wrong with the answers of an application that listens on a socket, to one of so many operations."""
    server = HttpServer(web, host="127.0.0.1", port=0, graceful_stop_s=5)
    await server.start()
    try:
        document = web.openapi()
        document["paths"] = dict(list(document["paths"].items())[nth::of])
        return await asyncio.to_thread(wrong_answers, document, f"http://127.0.0.1:{server.port}", tokens)
    finally:
        await server.stop()


def wrong_answers(document: dict[str, Any], url: str, tokens: list[str | None]) -> list[str]:
    """What the checks say of each operation's first wrong answer."""
    schema = schemathesis.openapi.from_dict(document)
    found = []
    with requests.Session() as session:
        session.trust_env = False
        for result in schema.get_all_operations():
            operation = result.ok()
            if operation.path in LEFT_OUT:
                continue
            try:
                ask(operation, url, tokens, session)
            except (Exception, BaseExceptionGroup) as error:
                found.append(f"{operation.method.upper()} {operation.path}: {error}"[:2000])
    return found


def ask(operation: Any, url: str, tokens: list[str | None], session: requests.Session) -> None:
    """Ask one operation; raises what is wrong with an answer."""
    kinds = [operation.as_strategy(generation_mode=mode) for mode in schemathesis.GenerationMode]

    @seed(20_260)
    @QUIET
    @given(case=st.one_of(kinds), token=st.sampled_from(tokens))
    def run(case: Any, token: str | None) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        response = case.call(base_url=url, session=session, headers=headers, timeout=30)
        case.validate_response(response, checks=CHECKS, headers=headers)

    run()
