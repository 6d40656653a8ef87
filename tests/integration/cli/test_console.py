"""The console of a running system, as a browser without scripts sees it: every link, a command, two people."""

from __future__ import annotations

import html
import json
import re
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.integration.cli.conftest import Orrery
from tests.integration.cli.test_live_system import submit, wait_for

pytestmark = [pytest.mark.usefixtures("world"), pytest.mark.timeout(300)]
#: links that are followed: each kind of page is among them
PAGES = 60
LIMIT = "jobbroker.NQUEUELIMITSITE"


def hidden_in(page: str, action: str) -> dict[str, str]:
    """The hidden fields of the form that is sent there."""
    (form,) = re.findall(rf'<form[^>]*action="{re.escape(action)}".*?</form>', page, re.DOTALL)
    found = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', form)
    return {name: html.unescape(value) for name, value in found}


def signed_in(orrery: Orrery, *options: str) -> httpx.Client:
    """A browser that opened the link that `orrery console` prints, and went on."""
    url = orrery("console", "tasks", "--json", *options).json()["data"]["url"]
    parts = urlsplit(url)
    headers = {"Accept": "text/html", "Sec-Fetch-Site": "same-origin"}
    browser = httpx.Client(base_url=f"{parts.scheme}://{parts.netloc}", headers=headers, trust_env=False, timeout=60)
    fields = hidden_in(browser.get(url).text, "/console/sign-in")
    answer = browser.post("/console/sign-in", data=fields)
    assert (answer.status_code, answer.headers["location"]) == (303, "/console/tasks"), answer.text
    return browser


def links_of(page: str) -> list[str]:
    found = re.findall(r'<a [^>]*href="(/console/[^"#]*)"', page)
    return [html.unescape(one) for one in found]


def test_a_page_says_why_a_task_waits_in_the_words_of_the_command_line(orrery: Orrery, tmp_path: Path) -> None:
    assert orrery("config", "set", LIMIT, "1").code == 0
    first = submit(orrery, tmp_path, 0, "fills.console")
    wait_for(orrery, first, "scouting")
    queue = orrery("jobs", "--task", str(first), "--json").json()[0]["queue"]
    waiting = submit(orrery, tmp_path, 0, "waits.console", site=queue)
    wait_for(orrery, waiting, "pending")
    explained = json.loads(orrery("explain", "task", str(waiting), "--json").out)
    with closing(signed_in(orrery)) as browser:
        page = browser.get(f"/console/tasks/{waiting}/why").text
        told = browser.get(f"/console/tasks/{waiting}/why", headers={"Accept": "application/json"}).json()["data"]
    assert orrery("config", "unset", LIMIT).code == 0
    assert told["groups"][0]["has_nearest"] and "nearest miss" in page
    assert html.escape(explained["decisions"][0]["waits_for"]) in page
    nearest = explained["decisions"][0]["summary"]["nearest_miss"]
    assert told["groups"][0]["check"] == nearest["check"] and f">{nearest['name']}<" in page.replace("<bdi>", ">")


def test_every_page_that_a_link_leads_to_is_there_and_has_its_data_as_json(orrery: Orrery, tmp_path: Path) -> None:
    task_id = submit(orrery, tmp_path, 0, "console")
    wait_for(orrery, task_id, "scouting")
    with closing(signed_in(orrery)) as browser:
        todo, seen = ["/console/", f"/console/tasks/{task_id}/why"], set[str]()
        while todo and len(seen) < PAGES:
            path = todo.pop(0)
            if path in seen:
                continue
            seen.add(path)
            answer = browser.get(path)
            assert answer.status_code == 200, (path, answer.text)
            assert "Not shown:" not in answer.text, (path, answer.text)
            told = browser.get(path, headers={"Accept": "application/json"})
            assert told.status_code == 200 and told.json()["away"] == {}, path
            todo += links_of(answer.text)
    assert {"/console/system/parked", f"/console/tasks/{task_id}/decisions", "/console/shares"} <= seen


def test_a_task_is_paused_with_a_form_that_said_what_it_does_and_others_may_not(orrery: Orrery, tmp_path: Path) -> None:
    task_id = submit(orrery, tmp_path, 0, "paused")
    wait_for(orrery, task_id, "scouting")
    path = f"/console/tasks/{task_id}/commands/pause"
    with closing(signed_in(orrery, "--name", "nobody", "--role", "user", "--group", "atlas")) as other:
        seen = other.get(f"/console/tasks/{task_id}")
        assert "Only its state is shown to you" in seen.text and path not in links_of(seen.text)
        assert other.get(path).status_code == 404
        assert other.get("/console/system").status_code == 403
    with closing(signed_in(orrery)) as browser:
        assert path in links_of(browser.get(f"/console/tasks/{task_id}").text)
        described = browser.get(path)
        assert "Make and start no jobs until the task is resumed." in described.text
        assert other.cookies["orrery_console"] != browser.cookies["orrery_console"]
        fields = {**hidden_in(described.text, path), "reason": "looked at in the console"}
        done = browser.post(path, data=fields)
        assert (done.status_code, done.headers["location"]) == (303, f"/console/tasks/{task_id}")
        wait_for(orrery, task_id, "paused")
        assert "looked at in the console" in browser.get(f"/console/tasks/{task_id}").text


def test_a_link_to_a_task_is_printed_for_others(orrery: Orrery) -> None:
    url = orrery("open", "task", "7", "--print").out.strip()
    assert urlsplit(url).path == "/console/tasks/7"
    assert orrery("open", "star", "7").code == 2
