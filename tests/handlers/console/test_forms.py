"""What forms do: the command that a page described, with what was filled in; a refusal is told on the page before."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.handlers.console.stubbed_api import RECORDED, Page, StubbedApi

JOB = RECORDED["job/get_description_incl_archive"]["data"][0]["job_id"]


async def send(browser: httpx.AsyncClient, page: str, to: str, **fields: str) -> httpx.Response:
    """Open a page, fill in its form and send it."""
    hidden = Page((await browser.get(page)).text).form_to(to)
    headers = {"Referer": f"http://console{page}"}
    return await browser.post(to, data={**hidden, **fields}, headers=headers)


async def test_a_command_is_described_then_given_and_its_answer_is_told_with_the_task(
    browser: httpx.AsyncClient, api: StubbedApi
) -> None:
    api.says("task/kill", 0, "command kill accepted; task 7 is aborting")
    path = "/console/tasks/7/commands/kill"
    described = Page((await browser.get(path)).text).text
    assert "End a task and all its jobs." in described and "killed" in described
    done = await send(browser, path, path, reason="no longer needed")
    assert (done.status_code, done.headers["location"]) == (303, "/console/tasks/7")
    assert api.bodies("task/kill") == [{"task_id": 7, "reason": "no longer needed"}]
    assert "Done: kill: command kill accepted" in Page((await browser.get("/console/tasks/7")).text).text
    assert "command kill accepted" not in (await browser.get("/console/tasks/7")).text, "it is told once"


async def test_a_refusal_is_told_on_the_page_with_the_form(browser: httpx.AsyncClient, api: StubbedApi) -> None:
    problems = [{"field": "priority", "value": "9999", "allowed": "at most 1000", "message": "priority: too high"}]
    api.says("task/change_priority", 5, "", success=False, problems=problems)
    path = "/console/tasks/7/commands/set-priority"
    done = await send(browser, path, path, priority="9999")
    assert done.headers["location"] == path
    assert "Refused: priority: at most 1000" in Page((await browser.get(path)).text).text


@pytest.mark.parametrize(
    ("verb", "fields", "body"),
    [
        ("finish", {}, {"soft": True}),
        ("finish", {"soft": "yes"}, {"soft": False}),
        ("set-priority", {"priority": " 950 "}, {"priority": 950}),
        ("set-priority", {"priority": "-5"}, {"priority": -5}),
        ("incexec", {"new_parameters": "nFilesPerJob=2\nskipScout=true\n\nsite=\n"},
         {"new_parameters": {"nFilesPerJob": 2, "skipScout": True, "site": None}}),
        ("recover-lost-files", {"files": "a\n b \n", "dry_run": "yes"}, {"files": ["a", "b"], "dry_run": True}),
        ("set-rule", {"attribute_name": "NF", "value": "5"}, {"attribute_name": "NF", "value": "5"}),
    ],
)  # fmt: skip
async def test_what_was_filled_in_becomes_the_body(
    browser: httpx.AsyncClient, api: StubbedApi, verb: str, fields: dict[str, str], body: dict[str, Any]
) -> None:
    offered = {one["verb"]: {**one, "refused": None} for one in RECORDED["task/get_commands"]["data"]}
    api.says("task/get_commands", list(offered.values()))
    command = offered[verb]
    api.says(f"task/{command['path']}", 0, "accepted")
    path = f"/console/tasks/7/commands/{verb}"
    await send(browser, path, path, **fields)
    assert api.bodies(f"task/{command['path']}") == [{"task_id": 7, **body}]


@pytest.mark.parametrize(
    ("verb", "fields", "told"),
    [
        ("set-priority", {"priority": "high"}, "priority: 'high': allowed: a whole number"),
        ("set-priority", {}, "priority: is needed"),
        ("retry", {"new_parameters": "nFilesPerJob"}, "allowed: a NAME=VALUE on each line"),
    ],
)
async def test_what_makes_no_sense_is_refused_before_anybody_is_asked(
    browser: httpx.AsyncClient, api: StubbedApi, verb: str, fields: dict[str, str], told: str
) -> None:
    offered = [{**one, "refused": None} for one in RECORDED["task/get_commands"]["data"]]
    api.says("task/get_commands", offered)
    path = f"/console/tasks/7/commands/{verb}"
    await send(browser, path, path, **fields)
    assert told in Page((await browser.get(path)).text).text
    assert not [one for one in api.asked if one.method == "POST"]


async def test_a_command_that_would_be_refused_has_no_form_and_says_why(
    browser: httpx.AsyncClient, api: StubbedApi
) -> None:
    offered = [{**one, "refused": "task 7 is not of ada"} for one in RECORDED["task/get_commands"]["data"]]
    api.says("task/get_commands", offered)
    page = Page((await browser.get("/console/tasks/7/commands/kill")).text)
    assert "It would be refused now: task 7 is not of ada" in page.text
    assert [one["action"] for one in page.forms] == ["/console/search", "/console/sign-out"]
    task = Page((await browser.get("/console/tasks/7")).text)
    assert "None that you may give now." in task.text


async def test_an_unknown_command_names_those_that_there_are(browser: httpx.AsyncClient) -> None:
    answer = await browser.get("/console/tasks/7/commands/explode")
    assert answer.status_code == 404 and "there are: kill, finish" in Page(answer.text).text


async def test_a_job_is_killed_after_its_page_said_what_that_does(browser: httpx.AsyncClient, api: StubbedApi) -> None:
    job = {**RECORDED["job/get_description_incl_archive"]["data"][0], "status": "running"}
    api.says("job/get_description_incl_archive", [job])
    api.says("job/kill", [True])
    path = f"/console/jobs/{JOB}/kill"
    done = await send(browser, path, path)
    assert done.headers["location"] == f"/console/jobs/{JOB}" and api.bodies("job/kill") == [{"job_ids": [JOB]}]
    api.says("job/kill", [False], f"job {JOB}: is finished")
    await send(browser, path, path)
    assert f"Refused: job {JOB}: is finished" in Page((await browser.get("/console/")).text).text


async def test_a_job_that_has_ended_has_no_form_to_kill_it(browser: httpx.AsyncClient) -> None:
    page = Page((await browser.get(f"/console/jobs/{JOB}/kill")).text)
    assert "It has ended: there is nothing to kill." in page.text
    assert [one["action"] for one in page.forms] == ["/console/search", "/console/sign-out"]


async def test_a_queue_is_cordoned_with_a_reason(browser: httpx.AsyncClient, api: StubbedApi) -> None:
    name = RECORDED["explain/queue"]["data"]["queue"]["queue"]
    api.says("grid/cordon", None)
    await send(browser, f"/console/queues/{name}", "/console/queue-cordon", reason=" ")
    assert api.bodies("grid/cordon") == []
    done = await send(browser, f"/console/queues/{name}", "/console/queue-cordon", reason="disk is broken")
    assert done.headers["location"] == f"/console/queues/{name}"
    assert api.bodies("grid/cordon") == [{"queue": name, "reason": "disk is broken"}]


async def test_parked_messages_are_replayed_and_dropped_after_a_page_said_which(
    browser: httpx.AsyncClient, api: StubbedApi
) -> None:
    row = RECORDED["bus/parked"]["data"][0]
    rows = [{**row, "parked_id": n, "consumer": "x" if n == 3 else "y", "reason": f"reason {n}"} for n in (1, 2, 3)]
    api.says("bus/parked", rows)
    api.says("bus/replay", {"replayed": [1, 2], "not_replayed": []})
    links = Page((await browser.get("/console/system/parked")).text).links
    (of_y,) = [one for one in links if "consumer=y" in one]
    page = Page((await browser.get(of_y)).text)
    assert "2 messages put aside" in page.text and "orrery bus replay 1 2" in page.text
    assert "reason 1" in page.text and "reason 2" in page.text and "reason 3" not in page.text
    assert api.bodies("bus/replay") == []
    done = await browser.post("/console/system/replay", data=page.form_to("/console/system/replay"))
    assert api.bodies("bus/replay") == [{"parked_ids": [1, 2]}]
    assert done.headers["location"] == "/console/system/parked"
    api.says("bus/drop", {"dropped": [3], "not_dropped": []})
    (single,) = [one for one in links if one.endswith("parked_id=3")]
    fields = Page((await browser.get(single)).text).form_to("/console/system/drop")
    await browser.post("/console/system/drop", data=fields)
    assert api.bodies("bus/drop") == []
    await browser.post("/console/system/drop", data={**fields, "reason": "of an old version"})
    assert api.bodies("bus/drop") == [{"parked_ids": [3], "reason": "of an old version"}]
    assert (await browser.get("/console/system/parked/chosen?parked_id=4")).status_code == 404
    assert (await browser.get("/console/system/parked/chosen")).status_code == 404


@pytest.mark.parametrize("content", [b"\xff\xfe", b"&".join(b"a=1" for _ in range(300)), b"form=" + b"x" * 30_000])
async def test_a_broken_form_does_nothing(browser: httpx.AsyncClient, api: StubbedApi, content: bytes) -> None:
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = await browser.post("/console/tasks/7/commands/kill", content=content, headers=headers)
    assert answer.status_code in (303, 400, 403, 413)
    assert not [one for one in api.asked if one.method == "POST"]


async def test_what_a_command_does_not_take_is_not_filled_in_from_the_address(browser: httpx.AsyncClient) -> None:
    text = Page((await browser.get("/console/tasks/7/commands/kill?value=9")).text).text
    assert "orrery kill 7" in text and "orrery kill 7 9" not in text
