"""What the word that is being written may become."""

from __future__ import annotations

from urllib.parse import quote

import httpx
import pytest

from tests.handlers.console.stubbed_api import StubbedApi


async def suggested(browser: httpx.AsyncClient, text: str, of: str = "tasks") -> list[str]:
    headers = {"Accept": "application/json"}
    answer = await browser.get(f"/console/suggestions?of={of}&q={quote(text)}", headers=headers)
    assert answer.status_code == 200, answer.text
    found: list[str] = answer.json()["data"]["suggestions"]
    return found


@pytest.mark.parametrize(
    ("text", "of", "found"),
    [
        ("", "jobs", ["task=", "status=", "queue=", "user=", "like="]),
        ("st", "tasks", ["status="]),
        ("vo=atlas us", "tasks", ["vo=atlas user="]),
        ("status=runn", "tasks", ["status=running"]),
        ("vo=atlas status=running,pau", "tasks", ["vo=atlas status=running,paused"]),
        ("name=x", "tasks", []),
        ("nothing=x", "tasks", []),
    ],
)
async def test_words_of_ours_are_suggested_without_asking_anybody(
    browser: httpx.AsyncClient, api: StubbedApi, text: str, of: str, found: list[str]
) -> None:
    assert await suggested(browser, text, of) == found and api.asked == []


async def test_names_are_suggested_from_what_there_is(browser: httpx.AsyncClient, api: StubbedApi) -> None:
    api.says("task/names", ["atlas", "atlas-test"])
    assert await suggested(browser, "status=running vo=at") == [
        "status=running vo=atlas",
        "status=running vo=atlas-test",
    ]
    assert api.queries("task/names") == [{"field": ["vo"], "start": ["at"], "limit": ["20"]}]
    api.says("grid/names", ["CERN"])
    assert await suggested(browser, "queue=er", "jobs") == ["queue=CERN"]


async def test_a_service_that_is_away_suggests_nothing(browser: httpx.AsyncClient, api: StubbedApi) -> None:
    api.away("task/names")
    assert await suggested(browser, "user=a") == []


async def test_the_box_asks_while_somebody_writes(browser: httpx.AsyncClient, api: StubbedApi) -> None:
    page = (await browser.get("/console/tasks")).text
    assert 'list="suggested" hx-get="/console/suggestions?of=tasks"' in page and '<datalist id="suggested">' in page
    api.says("task/names", ['"><script>'])
    options = (await browser.get("/console/suggestions?of=tasks&q=user%3D")).text
    assert options.strip() == '<option value="user=&#34;&gt;&lt;script&gt;"></option>'
