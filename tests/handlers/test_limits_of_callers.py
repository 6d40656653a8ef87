"""Calls over a limit of their caller or address: every service puts them off in the form of the caller's protocol."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from services.cli.one_process import composition_roots
from shared.auth import Authority
from shared.auth.authentication import Authentication
from shared.auth.call_rates import ADDRESS, CALLER, FAILED, CallLimits
from shared.runtime.service import Context
from shared.runtime.web import add_health
from shared.web.service import install
from tests.handlers.every_service import LEGACY, NAMES, wrong_with

#: a read of each service that anybody with a token may ask
READS = {
    "job-brokerage": "/api/v1/grid/queues",
    "job-dispatch": "/api/v1/job/list",
    "job-generation": "/api/v1/retry_rule/list",
    "share-correction": "/api/v1/share/list",
    "task-definition": "/api/v1/task/list",
    "watchdog": "/api/v1/bus/parked",
}


async def _ready() -> list[str]:
    return []


async def limited_web(context: Context, authority: Authority, name: str, **rates: float) -> FastAPI:
    """A service that lets so many calls come at once, and as many in a minute."""
    built = composition_roots()[name](dataclasses.replace(context, metrics=CollectorRegistry()))
    assert built.web is not None
    limits = CallLimits({limit: n / 60 for limit, n in rates.items()}, burst_s=60, clock=lambda: 0.0)
    install(built.web, Authentication(authority, limits=limits), built.body_limits)
    add_health(built.web, ready=_ready, registries=())
    for action in built.on_start:
        await action()
    return built.web


@asynccontextmanager
async def calling(web: FastAPI, token: str | None, peer: str = "192.0.2.1") -> AsyncIterator[httpx.AsyncClient]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    transport = httpx.ASGITransport(web, raise_app_exceptions=False, client=(peer, 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://s", headers=headers) as client:
        yield client


@pytest.mark.parametrize("name", NAMES)
async def test_who_calls_too_often_is_put_off_in_every_service_and_nobody_else_is(
    context: Context, authority: Authority, name: str
) -> None:
    web, path = await limited_web(context, authority, name, **{CALLER: 3, ADDRESS: 2}), READS[name]
    async with calling(web, authority.issue("ada", ["user"])) as ada:
        assert [(await ada.get(path)).status_code == 429 for _ in range(4)] == [False, False, False, True]
        put_off = await ada.get(path)
        assert put_off.status_code == 429 and put_off.headers["retry-after"] == "20"
        assert put_off.json()["message"] == "more than 0.05 calls/s of ada; come again in 20 s"
        assert not wrong_with(put_off)
        for health in ("/livez", "/readyz", "/metrics"):
            assert (await ada.get(health)).status_code == 200, "whoever asks"
    async with calling(web, authority.issue("bob", ["user"])) as bob:
        assert (await bob.get(path)).status_code != 429, "at the same address"
    async with calling(web, None) as nobody:
        assert [(await nobody.get(path)).status_code for _ in range(3)] == [401, 401, 429]
    async with calling(web, None, "192.0.2.2") as elsewhere:
        assert (await elsewhere.get(path)).status_code == 401


@pytest.mark.parametrize("name", NAMES)
async def test_guessed_tokens_are_put_off_before_they_are_looked_at(
    context: Context, authority: Authority, name: str
) -> None:
    web, path = await limited_web(context, authority, name, **{FAILED: 2}), READS[name]
    known = authority.issue("ada", ["user", "pilot"])
    async with calling(web, known) as ada:
        assert (await ada.get(path)).status_code != 429
        for number in range(4):
            async with calling(web, f"guess.{number}.x") as guessing:
                assert (await guessing.get(path)).status_code == (401 if number < 2 else 429)
        assert (await ada.get(path)).status_code != 429, "known before"
    async with calling(web, authority.issue("bob", ["user"])) as bob:
        answer = await bob.get(path)
        assert answer.status_code == 429 and "refused tokens/s from 192.0.2.1" in answer.json()["message"]
    async with calling(web, authority.issue("bob", ["user"]), "192.0.2.2") as elsewhere:
        assert (await elsewhere.get(path)).status_code != 429


async def test_reads_on_paths_of_pilots_are_counted_for_everybody_but_pilots(
    context: Context, authority: Authority
) -> None:
    web = await limited_web(context, authority, "job-dispatch", **{CALLER: 2})
    status, secrets = f"{LEGACY}getStatus", f"{LEGACY}get_user_secrets"
    async with calling(web, authority.issue("ada", ["user"], ["atlas"])) as ada:
        assert (await ada.get(secrets)).json() == [True, {}]
        assert (await ada.get("/api/v1/pilot/get_job_status", params={"job_ids": 1})).status_code == 200
        told = (await ada.get(secrets)).json()
        assert told[0] is False and "more than 0.0333333 calls/s of ada" in told[1]
        assert (await ada.get("/api/v1/pilot/get_job_status", params={"job_ids": 1})).status_code == 429
        report = {"job_id": 1, "job_status": "failed", "attempt_nr": 1}
        assert (await ada.post("/api/v1/pilot/update_job", json=report)).status_code != 429, "it is no read"
    for name, role, is_limited in (("p", "production", True), ("o", "operator", True), ("f", "pilot", False)):
        async with calling(web, authority.issue(name, [role])) as one:
            codes = [(await one.get(status, params={"ids": 1})).text for _ in range(4)]
        assert any("calls/s" in text for text in codes) is is_limited, name


async def test_pilots_whose_tokens_are_put_off_are_told_in_the_form_of_their_method(
    context: Context, authority: Authority
) -> None:
    web = await limited_web(context, authority, "job-dispatch", **{FAILED: 1})
    async with calling(web, "guess.x.y") as pilot:
        assert (await pilot.post("/api/v1/pilot/acquire_jobs", json={})).status_code == 401
        answer = await pilot.post("/api/v1/pilot/acquire_jobs", json={})
        assert answer.status_code == 429 and answer.json()["data"] == {"StatusCode": 10}
        answer = await pilot.post(f"{LEGACY}getJob", data={"siteName": "Q1"})
        assert (answer.status_code, answer.json()["StatusCode"]) == (200, 10)
        answer = await pilot.post(f"{LEGACY}updateJob", data={"jobId": 1})
        assert answer.status_code == 429 and answer.headers["retry-after"]
        for path in (f"{LEGACY}get_access_token", "/api/v1/creds/get_access_token"):
            answer = await pilot.get(path, params={"token_key": "s3cr3t" * 4000})
            assert answer.json().get("StatusCode", answer.status_code) in (10, 429) and "s3cr3t" not in answer.text
