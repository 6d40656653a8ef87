"""Hints reach open pages of those who were told what the pages are about, and nobody else's."""

from __future__ import annotations

import asyncio
import itertools
import time
from urllib.parse import parse_qs, quote, urlsplit

import httpx
import pytest
from fastapi import FastAPI

from services.console import hinting, sharing
from services.console.api import live
from services.console.app import service_of
from services.console.environment import ConsoleSettings
from shared import events
from shared.auth import Authority
from shared.runtime.service import Service
from tests.applications import application_of
from tests.handlers.console.streams import Stream, stream_of
from tests.handlers.console.stubbed_api import (
    API_URL,
    RECORDED,
    Page,
    StubbedApi,
    browser_at,
    console_over,
    envelope,
    sign_in,
    token_for,
)


@pytest.fixture
def service(api: StubbedApi) -> Service:
    client = httpx.AsyncClient(transport=httpx.MockTransport(api))
    return service_of(ConsoleSettings(api_url=API_URL), client)


@pytest.fixture
def web(service: Service) -> FastAPI:
    return application_of(service, Authority.generate())


async def happens(service: Service, event: events.Event) -> None:
    """The console hears an event."""
    [heard] = [handler for kind, handler in service.news if isinstance(event, kind)]
    await heard(event)


async def test_an_open_page_gets_a_hint_within_a_second_and_asks_again(
    web: FastAPI, service: Service, browser: httpx.AsyncClient
) -> None:
    page = await browser.get("/console/tasks/7")
    assert 'hx-trigger="hint from:#hints, every 15s"' in page.text
    async with Stream(web, browser, stream_of(page)) as stream:
        assert (stream.status, stream.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        assert stream.headers["x-accel-buffering"] == "no" and "content-encoding" not in stream.headers
        begun = asyncio.get_running_loop().time()
        await happens(service, events.TaskReady(task_id=8))
        await happens(service, events.TaskReady(task_id=7))
        hint = await stream.hint()
        assert (hint["event"], hint["data"]) == ("hint", quote("task 7"))
        assert asyncio.get_running_loop().time() - begun < 1.0


async def test_a_page_that_connects_again_is_told_of_what_it_missed_and_of_nothing_else(
    web: FastAPI, service: Service, browser: httpx.AsyncClient
) -> None:
    address = stream_of(await browser.get("/console/tasks/7"))
    async with Stream(web, browser, address) as stream:
        await happens(service, events.TaskReady(task_id=7))
        last = (await stream.hint())["id"]
    await happens(service, events.TaskReady(task_id=8))
    async with Stream(web, browser, address, last) as stream:
        await asyncio.sleep(0.05)
        assert stream.nothing_yet()
    await happens(service, events.TaskReady(task_id=7))
    async with Stream(web, browser, address, last) as stream:
        assert (await stream.hint())["event"] == "hint"


async def test_a_list_says_how_many_have_changed_and_does_not_jump(
    web: FastAPI, service: Service, browser: httpx.AsyncClient, api: StubbedApi
) -> None:
    row = RECORDED["task/list"]["data"][0]
    api.says("task/list", [{**row, "task_id": n} for n in (7, 8, 9)])
    page = await browser.get("/console/tasks?q=vo%3Datlas")
    assert "hx-select" not in page.text
    async with Stream(web, browser, stream_of(page)) as stream:
        for task_id in (7, 9, 10):
            await happens(service, events.TaskReady(task_id=task_id))
        hint = await stream.hint()
        assert hint["data"] == '<a href="/console/tasks?q=vo%3Datlas">2 changed: show</a>' and "event" not in hint


async def test_a_list_says_that_there_may_be_new_ones_and_so_does_an_empty_one(
    web: FastAPI, service: Service, browser: httpx.AsyncClient, api: StubbedApi
) -> None:
    generated = events.JobsGenerated(task_id=99, chunk_id=1, job_ids=(9999,))
    for path, rows, event in (("task/list", [], events.TaskRegistered(task_id=99)), ("job/list", None, generated)):
        if rows is not None:
            api.says(path, rows)
        page = await browser.get(f"/console/{path.partition('/')[0]}s")
        async with Stream(web, browser, stream_of(page)) as stream:
            await happens(service, event)
            assert "Others may have come: show" in (await stream.hint())["data"]


async def test_a_list_with_a_filter_may_have_other_rows_after_a_while(
    web: FastAPI, service: Service, browser: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "OTHERS_S", 0.2)
    monkeypatch.setattr(live, "KEEP_S", 0.1)
    page = await browser.get("/console/tasks?q=status%3Dfailed")
    async with Stream(web, browser, stream_of(page)) as stream:
        await happens(service, events.TaskRegistered(task_id=99))
        assert "Others may have come: show" in (await stream.hint())["data"]


async def test_a_filter_that_is_not_understood_listens_to_nothing(browser: httpx.AsyncClient) -> None:
    assert "hx-sse:connect" not in (await browser.get("/console/tasks?q=nonsense")).text


async def test_between_two_messages_of_one_page_is_a_second_however_many_rows_change(
    web: FastAPI, service: Service, browser: httpx.AsyncClient, api: StubbedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hinting, "EVERY_S", 0.3)
    monkeypatch.setattr(hinting, "GATHER_S", 0.01)
    row, loop = RECORDED["task/list"]["data"][0], asyncio.get_running_loop()
    api.says("task/list", [{**row, "task_id": n} for n in range(1, 51)])
    async with Stream(web, browser, stream_of(await browser.get("/console/tasks"))) as stream:
        times, said = list[float](), list[str]()

        async def read() -> None:
            while True:
                said.append((await stream.hint())["data"])
                times.append(loop.time())

        reading = asyncio.create_task(read())
        for task_id in range(1, 51):
            await happens(service, events.TaskReady(task_id=task_id))
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.7)
        reading.cancel()
    assert 2 <= len(said) <= 6 and len(set(said)) == len(said), "what says the same is said once"
    assert "50 changed: show" in said[-1]
    assert all(later - sooner > 0.25 for sooner, later in itertools.pairwise(times))


async def test_a_stream_ends_with_its_session(
    web: FastAPI, browser: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "KEEP_S", 0.1)
    page = await browser.get("/console/tasks/7")
    async with Stream(web, browser, stream_of(page)) as stream:
        assert stream.is_open()
        await browser.post("/console/sign-out", data=Page(page.text).form_to("/console/sign-out"))
        assert await stream.rest() == "", "who signed out is told nothing more"
    async with browser_at(web) as other:
        await sign_in(other, token_for(2.0))
        async with Stream(web, other, stream_of(await other.get("/console/tasks/7"))) as stream:
            assert stream.is_open()
            assert await stream.rest() == ""


async def test_a_first_connection_that_was_refused_is_tried_again(browser: httpx.AsyncClient) -> None:
    page = await browser.get("/console/tasks/7")
    assert 'hx-trigger="load, every 60s" hx-sse:connect' in page.text


async def test_a_queue_hears_of_a_grid_that_names_no_queues(
    web: FastAPI, service: Service, browser: httpx.AsyncClient
) -> None:
    async with Stream(web, browser, stream_of(await browser.get("/console/queues/CERN"))) as stream:
        await happens(service, events.GridChanged(grid_version=2))
        assert (await stream.hint())["event"] == "hint"


async def test_who_is_not_told_of_something_gets_no_hints_of_it(
    web: FastAPI, service: Service, browser: httpx.AsyncClient, api: StubbedApi
) -> None:
    withheld = {"withheld": "details are for ada"}
    explained = RECORDED["explain/task"]["data"]
    api.says("explain/task", {**explained, "task": explained["task"] | withheld})
    api.says("task/get_details", RECORDED["task/get_details"]["data"] | withheld)
    for path in ("/console/tasks/7", "/console/tasks/7/why"):
        page = await browser.get(path)
        assert page.status_code == 200 and "hx-sse:connect" not in page.text and "every 15s" in page.text
    api.says("task/list", [RECORDED["task/list"]["data"][0] | withheld])
    page = await browser.get("/console/tasks")
    async with Stream(web, browser, stream_of(page)) as stream:
        await happens(service, events.TaskReady(task_id=RECORDED["task/list"]["data"][0]["task_id"]))
        await asyncio.sleep(0.3)
        assert stream.nothing_yet()


@pytest.mark.parametrize("of", ["", "task 7", "x.y"])
async def test_nobody_says_themselves_of_what_they_get_hints(browser: httpx.AsyncClient, of: str) -> None:
    assert (await browser.get(f"/console/hints?of={quote(of)}")).status_code == 403


async def test_a_session_gets_no_answer_that_was_made_for_another_one_of_the_same_person(
    web: FastAPI, browser: httpx.AsyncClient, api: StubbedApi
) -> None:
    """Its token may have been revoked since then, or be limited to other rights."""
    part = {"HX-Request": "true"}
    async with browser_at(web) as elsewhere:
        await sign_in(elsewhere)
        (revoked,) = {one.headers["authorization"] for one in api.asked[-1:]}
        told = api.answers["task/get_details"]

        def believed(request: httpx.Request) -> httpx.Response:
            is_revoked = request.headers["authorization"] == revoked
            return envelope(None, "revoked", success=False, status=401) if is_revoked else told(request)

        api.answers["task/get_details"] = believed
        first, second = await asyncio.gather(
            browser.get("/console/tasks/7", headers=part), elsewhere.get("/console/tasks/7", headers=part)
        )
    assert first.status_code == 200 and second.headers["hx-redirect"].startswith("/console/sign-in")


async def test_the_word_of_a_page_is_of_one_session(web: FastAPI, browser: httpx.AsyncClient) -> None:
    address = stream_of(await browser.get("/console/tasks/7"))
    async with browser_at(web) as other:
        assert (await other.get(address)).status_code == 403
        await sign_in(other, token_for())
        assert (await other.get(address)).status_code == 403


async def test_a_token_that_is_not_believed_any_more_gets_no_hints(browser: httpx.AsyncClient, api: StubbedApi) -> None:
    address = stream_of(await browser.get("/console/tasks/7"))
    api.says("system/get_attributes", None, "the token was revoked", success=False, status=401)
    assert (await browser.get(address)).status_code == 401


async def test_streams_end_when_the_process_stops(web: FastAPI, service: Service, browser: httpx.AsyncClient) -> None:
    async with Stream(web, browser, stream_of(await browser.get("/console/tasks/7"))) as stream:
        assert stream.is_open()
        for action in service.on_stop:
            action()
        assert await stream.rest() == "", "the end of a process is no news"


async def test_when_hints_may_have_been_lost_every_page_asks_again(
    web: FastAPI, service: Service, browser: httpx.AsyncClient
) -> None:
    async with Stream(web, browser, stream_of(await browser.get("/console/jobs/7"))) as stream:
        for action in service.on_news_interrupted:
            action()
        assert (await stream.hint())["event"] == "hint"


async def test_a_thousand_open_pages_ask_the_services_once_for_each_hint(
    api: StubbedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharing, "SHARED_S", 60.0)  # a thousand answers take longer here than a second
    now = time.time()
    async with browser_at(console_over(api, lambda: now)) as browser:
        await sign_in(browser)
        headers = {"HX-Request": "true"}
        first = await browser.get("/console/tasks/7", headers=headers)
        n_asked = len(api.asked)
        answers = await asyncio.gather(*(browser.get("/console/tasks/7", headers=headers) for _ in range(1000)))
    assert {one.text for one in answers} == {first.text} and len(api.asked) == n_asked
    assert {one.headers["content-encoding"] for one in answers} == {"gzip"}
    assert len({len(one.headers.get_list("vary")) for one in answers}) == 1


async def test_what_was_asked_before_a_change_is_not_shown_after_it(
    web: FastAPI, service: Service, browser: httpx.AsyncClient, api: StubbedApi
) -> None:
    headers = {"HX-Request": "true"}
    page = await browser.get("/console/tasks/7")
    async with Stream(web, browser, stream_of(page)) as stream:
        await browser.get("/console/tasks/7", headers=headers)
        task = {**RECORDED["task/get_details"]["data"], "task_name": "another name"}
        api.says("task/get_details", task)
        await happens(service, events.TaskReady(task_id=7))
        await stream.hint()
        assert "another name" in (await browser.get("/console/tasks/7", headers=headers)).text


def test_hints_are_given_once_a_second() -> None:
    assert hinting.EVERY_S == 1.0 and hinting.GATHER_S < 1.0


async def test_the_stream_is_named_by_a_word_that_says_nothing(browser: httpx.AsyncClient) -> None:
    address = stream_of(await browser.get("/console/tasks/7"))
    (word,) = parse_qs(urlsplit(address).query)["of"]
    assert "task" not in word
