"""A runtime parameter is set: what it is and would be is said first; what was supposed is done for real."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from tests.handlers.console.stubbed_api import RECORDED, Page, StubbedApi, envelope, sign_in

NAME = "jobbroker.MAX_CANDIDATES"
CHANGE = "/console/system/parameters/change"
WHY = "/console/tasks/7/why"


async def send(browser: httpx.AsyncClient, page: str, **fields: str) -> httpx.Response:
    hidden = Page((await browser.get(page)).text).form_to(CHANGE)
    return await browser.post(CHANGE, data={**hidden, **fields}, headers={"Referer": f"http://console{page}"})


async def test_a_parameter_is_described_then_set_and_one_goes_on_where_one_was(
    browser: httpx.AsyncClient, api: StubbedApi
) -> None:
    api.says("config/set", {"config_version": 9}, f"{NAME} = 2 (int)")
    api.says("config/describe", {**RECORDED["config/describe"]["data"], "would_be": 2, "wrong": None})
    path = f"{CHANGE}?name={NAME}&value=2&next={WHY}"
    text = Page((await browser.get(path)).text).text
    for said in ("a whole number, 1 to 1000", "its default10", "it is5, set by olga", "it would be2"):
        assert said in text, said
    assert f"orrery config set {NAME} 2" in text and api.bodies("config/set") == []
    done = await send(browser, path, action="set", reason="the story")
    assert (done.status_code, done.headers["location"]) == (303, WHY)
    assert api.bodies("config/set") == [
        {"component": "jobbroker", "key": "MAX_CANDIDATES", "value": "2", "description": "the story"}
    ]
    assert f"Done: config set: {NAME} = 2 (int)" in Page((await browser.get(WHY)).text).text


async def test_a_value_that_is_none_of_the_parameters_is_named_before_anything_is_set(
    browser: httpx.AsyncClient, api: StubbedApi
) -> None:
    wrong = "value 'many': allowed: a whole number, 1 to 1000"
    api.says("config/describe", {**RECORDED["config/describe"]["data"], "would_be": None, "wrong": wrong})
    answer = await browser.get(f"{CHANGE}?name={NAME}&value=many")
    text = Page(answer.text).text
    assert answer.status_code == 400 and "it would be" not in text and f"It cannot be many: {wrong}" in text
    assert f"Set {NAME}" not in text and 'value="many"' in answer.text, "it can be mended"
    assert api.queries("config/describe")[-1]["value"] == ["many"]


async def test_it_is_set_for_one_vo_or_gets_its_default_back(browser: httpx.AsyncClient, api: StubbedApi) -> None:
    for verb in ("set", "unset"):
        api.says(f"config/{verb}", {"config_version": 9}, "done")
    path = f"{CHANGE}?name={NAME}&vo=atlas"
    await send(browser, f"{path}&value=3", action="set")
    done = await send(browser, f"{path}&value=3", action="unset")
    assert done.headers["location"] == "/console/system/parameters"
    assert api.bodies("config/set")[0]["vo"] == "atlas"
    assert api.bodies("config/unset") == [{"component": "jobbroker", "key": "MAX_CANDIDATES", "vo": "atlas"}]
    assert api.queries("config/describe")[0]["vo"] == ["atlas"]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"value": "", "action": "set"}, "value: is needed"),
        ({"value": "2", "action": "explode"}, "action: 'explode': allowed: set, unset"),
        ({"value": "2", "action": "set", "name": "nothing"}, "allowed: COMPONENT.KEY"),
    ],
)
async def test_a_form_with_an_error_says_what_is_allowed_and_sets_nothing(
    browser: httpx.AsyncClient, api: StubbedApi, fields: dict[str, str], said: str
) -> None:
    path = f"{CHANGE}?name={NAME}"
    await send(browser, path, **fields)
    assert said in Page((await browser.get(path)).text).text and api.bodies("config/set") == []


async def test_a_form_that_was_forged_sets_nothing(browser: httpx.AsyncClient, api: StubbedApi) -> None:
    answer = await browser.post(CHANGE, data={"name": NAME, "value": "2", "action": "set"})
    assert answer.status_code == 403 and api.bodies("config/set") == []


@pytest.mark.parametrize(("roles", "rights"), [("user", "cancel,modify,submit"), ("operator", "submit")])
async def test_who_may_not_set_it_reads_who_may(
    visitor: httpx.AsyncClient, api: StubbedApi, roles: str, rights: str
) -> None:
    known = RECORDED["system/get_attributes"]["data"]
    changed = {**known["environment"], "ROLES": roles, "RIGHTS": rights}
    api.says("system/get_attributes", {**known, "environment": changed})
    await sign_in(visitor)
    page = Page((await visitor.get(f"{CHANGE}?name={NAME}")).text)
    assert "Operators whose token has the right modify may set it" in page.text
    assert CHANGE not in [one["action"] for one in page.forms]


async def test_an_unknown_parameter_is_no_page_and_the_nearest_is_named(
    browser: httpx.AsyncClient, api: StubbedApi
) -> None:
    said = "jobbroker.MAX is no runtime parameter; did you mean jobbroker.MAX_CANDIDATES?"
    api.answers["config/describe"] = lambda request: envelope(2, said, success=False)
    answer = await browser.get(f"{CHANGE}?name=jobbroker.MAX")
    assert answer.status_code == 404 and "did you mean jobbroker.MAX_CANDIDATES?" in Page(answer.text).text


async def test_what_was_supposed_leads_to_the_pages_that_do_it(browser: httpx.AsyncClient) -> None:
    page = Page((await browser.get(f"/console/tasks/7/what-if?ram_count=1000&priority=900&parameter={NAME}%3D2")).text)
    (setting,) = [one for one in page.links if one.startswith(CHANGE)]
    assert parse_qs(urlsplit(setting).query) == {"name": [NAME], "value": ["2"], "next": [WHY]}
    commands = [one for one in page.links if "/commands/" in one]
    assert commands == [
        "/console/tasks/7/commands/set-need?attribute_name=ramCount&value=1000",
        "/console/tasks/7/commands/set-priority?priority=900",
    ]
    need = (await browser.get(commands[0])).text
    assert "<option selected>ramCount</option>" in need and 'name="value" inputmode="numeric" value="1000"' in need
    assert 'value="900"' in (await browser.get(commands[1])).text


async def test_with_a_vo_it_says_what_holds_for_all_and_what_giving_it_back_means(
    browser: httpx.AsyncClient, api: StubbedApi
) -> None:
    known = RECORDED["config/describe"]["data"]
    for_all = {**known["set"], "value": 7, "changed_by": "bob", "description": ""}
    api.says("config/describe", {**known, "set": {**known["set"], "value": 3}, "general": for_all})
    text = Page((await browser.get(f"{CHANGE}?name={NAME}&vo=atlas&value=4")).text).text
    for said in ("it is for atlas3, set by", "it is for all7, set by bob", f"Set {NAME} to 4 for atlas"):
        assert said in text, said
    assert "Back to what holds for all" in text and "Back to its default" not in text


async def test_only_what_was_shown_first_can_be_sent(browser: httpx.AsyncClient, api: StubbedApi) -> None:
    page = (await browser.get(f"{CHANGE}?name={NAME}")).text
    assert 'name="action" value="set"' not in page, "no value was filled in yet"
    page = (await browser.get(f"{CHANGE}?name={NAME}&value=4&vo=atlas")).text
    sent = Page(page).form_to(CHANGE)
    assert (sent["value"], sent["vo"]) == ("4", "atlas")


async def test_what_is_withheld_is_not_called_not_set(browser: httpx.AsyncClient, api: StubbedApi) -> None:
    api.says("config/describe", {**RECORDED["config/describe"]["data"], "set": None, "withheld": True})
    text = Page((await browser.get(f"{CHANGE}?name={NAME}")).text).text
    assert "it isnot told to you" in text and "not set" not in text


async def test_for_a_merge_no_command_about_other_jobs_is_offered(browser: httpx.AsyncClient, api: StubbedApi) -> None:
    explained = RECORDED["explain/task"]["data"]
    merges = [{**one, "chunk_kind": "merge"} for one in explained["decisions"]]
    api.says("explain/task", {**explained, "decisions": merges})
    page = Page((await browser.get("/console/tasks/7/what-if?ram_count=1000&core_count=2&priority=900")).text)
    assert [one for one in page.links if "/commands/" in one] == ["/console/tasks/7/commands/set-priority?priority=900"]


async def test_a_command_that_takes_whole_numbers_is_not_offered_with_others(browser: httpx.AsyncClient) -> None:
    page = Page((await browser.get("/console/tasks/7/what-if?ram_count=1000.5&priority=900")).text)
    assert [one for one in page.links if "/commands/" in one] == ["/console/tasks/7/commands/set-priority?priority=900"]
