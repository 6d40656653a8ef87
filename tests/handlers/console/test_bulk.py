"""One command on several rows: a page says first what it hits, and only those get it."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.handlers.console.stubbed_api import RECORDED, Page, StubbedApi, envelope

PREVIEW = RECORDED["task/preview_command"]["data"]
HIT = {**PREVIEW["tasks"][0], "refused": None, "jobs": {"running": 3}, "more_jobs": []}


@pytest.fixture
def three(api: StubbedApi) -> StubbedApi:
    """Tasks 7 and 8 would be hit, 9 not."""
    tasks = [{**HIT, "task_id": n, "refused": "task 9 is not of ada" if n == 9 else None} for n in (7, 8, 9)]
    api.says("task/preview_command", {**PREVIEW, "tasks": tasks})
    return api


async def test_the_list_offers_commands_on_what_is_ticked_and_on_all_that_is_shown(browser: httpx.AsyncClient) -> None:
    page = await browser.get("/console/tasks")
    ids = [row["task_id"] for row in RECORDED["task/list"]["data"]]
    assert 'action="/console/tasks/commands"' in page.text and f'value="{",".join(map(str, ids))}"' in page.text
    assert all(f'<input type="checkbox" name="task" value="{one}" aria-label="task {one}">' in page.text for one in ids)


async def test_what_it_hits_is_said_before_it_is_done(browser: httpx.AsyncClient, three: StubbedApi) -> None:
    page = Page((await browser.get("/console/tasks/commands?command=kill&task=7&task=8&task=9")).text)
    assert three.queries("task/preview_command") == [{"command": ["kill"], "task_ids": ["7,8,9"]}]
    assert "kill: 2 tasks" in page.text and "together they have 6 running" in page.text
    assert "task 9 is not of ada" in page.text and page.form_to("/console/tasks/commands")["tasks"] == "7,8"
    assert [one for one in three.asked if one.method == "POST"] == []
    assert "command line: orrery kill 7 8." in page.text, "those that it hits"


async def test_jobs_that_were_not_counted_to_their_end_are_told_as_more_than(
    browser: httpx.AsyncClient, api: StubbedApi
) -> None:
    many = {**HIT, "task_id": 7, "jobs": {"running": 5000, "activated": 2}, "more_jobs": ["running"]}
    api.says("task/preview_command", {**PREVIEW, "tasks": [many, {**HIT, "task_id": 8}]})
    text = Page((await browser.get("/console/tasks/commands?command=kill&task=7&task=8")).text).text
    assert "together they have more than 5\u202f003 running, 2 activated" in text
    assert "more than 5\u202f000 running, 2 activated" in text


async def test_the_command_line_is_never_cut_within_an_id(browser: httpx.AsyncClient, api: StubbedApi) -> None:
    ids = [10_000_000 + n for n in range(60)]
    api.says("task/preview_command", {**PREVIEW, "tasks": [{**HIT, "task_id": one} for one in ids]})
    page = Page(
        (await browser.get(f"/console/tasks/commands?command=kill&all=yes&shown={','.join(map(str, ids))}")).text
    )
    assert f"orrery kill {' '.join(map(str, ids[:12]))} ...." in page.text


async def test_all_that_are_shown_are_asked_about_where_that_was_chosen(
    browser: httpx.AsyncClient, three: StubbedApi
) -> None:
    await browser.get("/console/tasks/commands?command=pause&shown=7,8&all=yes&task=9")
    assert three.queries("task/preview_command") == [{"command": ["pause"], "task_ids": ["7,8"]}]


async def test_each_gets_the_command_and_the_next_page_tells_how_many_took_it(
    browser: httpx.AsyncClient, three: StubbedApi
) -> None:
    fields = Page((await browser.get("/console/tasks/commands?command=kill&task=7&task=8")).text).form_to(
        "/console/tasks/commands"
    )

    def killed(request: httpx.Request) -> httpx.Response:
        is_first = b'"task_id":7' in request.content.replace(b" ", b"")
        return envelope(0, "done") if is_first else envelope(1, "task 8 is done", success=False)

    three.answers["task/kill"] = killed
    done = await browser.post("/console/tasks/commands", data={**fields, "reason": "wrong input"})
    bodies = sorted(three.bodies("task/kill"), key=lambda one: one["task_id"])
    assert bodies == [{"task_id": n, "reason": "wrong input"} for n in (7, 8)]
    told = Page((await browser.get(done.headers["location"])).text).text
    assert "kill: 1 of 2 tasks; not: task 8: task 8 is done" in told


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/console/tasks/commands?command=explode&task=7", "command: 'explode': allowed: pause, resume"),
        ("/console/tasks/commands?command=kill", "task: 0 chosen: allowed: 1 to 100 ids; tick the rows of a list"),
        ("/console/tasks/commands?command=kill&task=x", "task: 'x': allowed"),
        ("/console/jobs/kills?job=0", "job: '0': allowed"),
        (f"/console/jobs/kills?job={'1' * 5000}", "job: '1111"),
    ],
)
async def test_a_choice_that_makes_no_sense_says_what_is_allowed(
    browser: httpx.AsyncClient, api: StubbedApi, path: str, told: str
) -> None:
    answer = await browser.get(path)
    assert answer.status_code == 400 and told in Page(answer.text).text and api.asked == []


async def test_jobs_are_killed_together_after_a_page_said_which(browser: httpx.AsyncClient, api: StubbedApi) -> None:
    row: dict[str, Any] = RECORDED["job/list"]["data"][0]
    api.says("job/list", [{**row, "job_id": n, "status": "finished" if n == 3 else "running"} for n in (1, 2, 3)])
    page = Page((await browser.get("/console/jobs/kills?job=1&job=2&job=3&job=4")).text)
    assert "Kill 2 jobs" in page.text and "There is no job 4." in page.text
    api.says("job/kill", [True, False], "job 2: is finished")
    done = await browser.post("/console/jobs/kills", data=page.form_to("/console/jobs/kills"))
    assert api.bodies("job/kill") == [{"job_ids": [1, 2]}]
    told = Page((await browser.get(done.headers["location"])).text).text
    assert "kill-job: 1 of 2 jobs were killed; job 2: is finished" in told


async def test_a_command_without_an_answer_says_that_it_is_not_known_whether_it_was_carried_out(
    browser: httpx.AsyncClient, api: StubbedApi
) -> None:
    offered = [{**one, "refused": None} for one in RECORDED["task/get_commands"]["data"]]
    api.says("task/get_commands", offered)

    def late(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("late", request=request)

    api.answers["task/kill"] = late
    fields = Page((await browser.get("/console/tasks/7/commands/kill")).text).form_to("/console/tasks/7/commands/kill")
    await browser.post("/console/tasks/7/commands/kill", data=fields)
    told = Page((await browser.get("/console/")).text).text
    assert "no answer to /task/kill within 15 s: it is not known whether it was carried out" in told
    api.away("task/kill")
    await browser.post("/console/tasks/7/commands/kill", data=fields)
    told = Page((await browser.get("/console/")).text).text
    assert "/task/kill cannot be asked: ConnectError" in told and "not known" not in told
