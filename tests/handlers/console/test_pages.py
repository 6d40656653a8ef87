"""Every page over recorded answers: HTML and the same as JSON, whatever others wrote, whoever is away."""

from __future__ import annotations

import gzip
import json
import re
import threading
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.responses import Response

from services.console.api import visits
from services.console.showing.rendering import POLICY, packed, static_files
from tests.handlers.console.stubbed_api import RECORDED, Page, StubbedApi, browser_at, envelope

#: each page, and what stands on it
PAGES = {
    "/console/": "Needs you",
    "/console/tasks": "The newest first",
    "/console/tasks?q=status%3Drunning%20vo%3Datlas": "The newest first",
    "/console/tasks/7": "Progress",
    "/console/tasks/7/why": "by the first check that each did not pass",
    "/console/tasks/7/what-if": "What if a number were another one?",
    "/console/tasks/7/what-if?ram_count=1000&parameter=jobbroker.MAX_CANDIDATES%3D2": "What differs",
    "/console/tasks/commands?command=kill&task=7": "End a task and all its jobs.",
    "/console/jobs/kills?job=7": "Pilots that have them are told at their next report",
    "/console/tasks/7/decisions": "The last that are kept of each kind",
    "/console/tasks/7/timeline": "Jobs by state",
    "/console/tasks/7/commands/kill": "End a task and all its jobs.",
    "/console/jobs": "The newest first",
    "/console/jobs/7": "What it runs",
    "/console/jobs/7/kill": "It has ended",
    "/console/queues": "queues",
    "/console/queues/CERN": "Who was refused here in the last hour",
    "/console/sites": "free space",
    "/console/sites/ALPHA": "queued 21 jobs",
    "/console/shares": "Each below its parent",
    "/console/shares/prod": "Its correction over a day",
    "/console/task-queues": "the highest priority first",
    "/console/system": "The largest tables",
    "/console/system/parked": "could not be handled",
    "/console/system/parked/chosen?parked_id=3": "A replay sends each to its consumer alone",
    "/console/system/check": "invariant",
    "/console/system/parameters": "Those that were set",
    "/console/system/parameters/change?name=jobbroker.MAX_CANDIDATES&value=2": "queues that a chunk is offered to",
    "/console/system/audit": "The newest first",
    "/console/system/limits": "no_heartbeat",
    "/console/system/contracts": "task.defined.v1",
    "/console/search?q=7": "Tasks",
    "/console/search?q=cern": "Queues",
}
LARGEST_FIRST_PAGE_BYTES = 60_000


@pytest.mark.parametrize("path", PAGES)
async def test_a_page_shows_what_it_is_for_and_names_the_verb_that_prints_the_same(
    browser: httpx.AsyncClient, path: str
) -> None:
    answer = await browser.get(path)
    page = Page(answer.text)
    assert answer.status_code == 200 and PAGES[path] in page.text
    assert answer.headers["content-security-policy"] == POLICY and answer.headers["cache-control"] == "no-store"
    assert "The same on the command line: orrery " in page.text
    assert page.tags.count("h1") == 1 and page.tags.count("main") == 1
    assert re.search(r"As of \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", page.text)


@pytest.mark.parametrize("path", PAGES)
async def test_the_same_address_gives_the_data_as_json(browser: httpx.AsyncClient, path: str) -> None:
    answer = await browser.get(path, headers={"Accept": "application/json"})
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["data"] and answer.json()["away"] == {}


@pytest.mark.parametrize("path", PAGES)
async def test_every_link_of_a_page_is_one_of_its_own(browser: httpx.AsyncClient, path: str) -> None:
    links = Page((await browser.get(path)).text).links
    assert links and all(one.startswith(("/console/", "#")) for one in links), links


HOSTILE = '"><script>alert(1)</script>\u202e' + "{{ 7 * 7 }}"


def hostile(value: Any) -> Any:
    """The same with such a text in the place of each text that is no time and no word of our own."""
    if isinstance(value, dict):
        return {name: one if name in OUR_WORDS else hostile(one) for name, one in value.items()}
    if isinstance(value, list):
        return [hostile(one) for one in value]
    return HOSTILE if isinstance(value, str) and not re.match(r"\d{4}-\d\d-\d\d", value) else value


#: what services, not people, write; and what leads to the page itself
OUR_WORDS = {"verb", "path", "kind", "tier", "does", "leads_to", "who", "children", "means", "name", "check", "queue"}


@pytest.mark.parametrize("path", [one for one in PAGES if one != "/console/system/contracts"])  # nobody wrote that
async def test_whatever_others_wrote_is_shown_as_text(browser: httpx.AsyncClient, api: StubbedApi, path: str) -> None:
    for name, body in RECORDED.items():
        api.says(name, hostile(body["data"]))
    answer = await browser.get(path)
    page = Page(answer.text)
    assert answer.status_code == 200, page.text
    assert page.tags.count("script") == 1 and "alert(1)" in page.text
    assert "\u202e" not in page.text and "{{ 7 * 7 }}" in page.text


async def test_a_name_of_100_kb_leaves_a_page_that_can_be_read(browser: httpx.AsyncClient, api: StubbedApi) -> None:
    rows = [{**one, "task_name": "x" * 100_000} for one in RECORDED["task/list"]["data"]]
    api.says("task/list", rows)
    answer = await browser.get("/console/tasks")
    assert answer.status_code == 200 and len(answer.text) < 100_000


PARTS = {
    "/console/": ("task/list", "condition"),
    "/console/tasks/7": ("explain/task", "task/get_commands"),
    "/console/tasks/7/timeline": ("job/list", "explain/task"),
    "/console/jobs/7": ("explain/job",),
    "/console/shares": ("share/explain", "share/history"),
    "/console/system/limits": ("timeout/list", "retention"),
    "/console/search?q=cern": ("grid/queues", "catalogue/datasets"),
}


@pytest.mark.parametrize(("path", "away"), [(path, one) for path, some in PARTS.items() for one in some])
async def test_a_service_that_is_away_leaves_its_part_saying_so_and_the_rest_works(
    browser: httpx.AsyncClient, api: StubbedApi, path: str, away: str
) -> None:
    api.away(away)
    answer = await browser.get(path)
    assert answer.status_code == 200 and f"Not shown: /{away} cannot be asked: ConnectError" in Page(answer.text).text
    data = (await browser.get(path, headers={"Accept": "application/json"})).json()
    assert f"/{away} cannot be asked: ConnectError" in data["away"].values()


async def test_names_are_searched_for_what_an_index_finds_and_for_less_the_page_says_so(
    browser: httpx.AsyncClient, api: StubbedApi
) -> None:
    page = Page((await browser.get("/console/search?q=v1")).text)
    assert "allowed: three letters or digits together, or more" in page.text
    assert [one.get("name") for one in api.queries("task/list")] == [None] and not api.queries("catalogue/datasets")
    page = Page((await browser.get("/console/search?q=mc23.v1")).text)
    assert "allowed:" not in page.text and "/console/tasks?q=name%3Dmc23.v1" in page.links
    assert ["mc23.v1"] in [one.get("name") for one in api.queries("task/list")]


@pytest.mark.parametrize("path", ["/console/tasks", "/console/queues", "/console/system", "/console/tasks/7/why"])
async def test_a_page_whose_only_service_is_away_says_so(
    browser: httpx.AsyncClient, api: StubbedApi, path: str
) -> None:
    api.away(*api.answers)
    answer = await browser.get(path)
    assert answer.status_code == 503 and "A service is away" in Page(answer.text).text


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/console/tasks/987654321", "task/get_details"), ("/console/tasks/987654321/why", "explain/task"),
        ("/console/jobs/987654321", "job/get_description_incl_archive"), ("/console/queues/NOWHERE", "explain/queue"),
    ],
)  # fmt: skip
async def test_an_unknown_id_gives_a_page_that_says_so_and_how_to_search(
    browser: httpx.AsyncClient, api: StubbedApi, path: str, asked: str
) -> None:
    unknown = [{"job_id": 987654321, "task_id": None}] if asked.startswith("job/") else 2
    api.says(asked, unknown, "task 987654321 not found", success=asked.startswith("job/"))
    answer = await browser.get(path)
    page = Page(answer.text)
    assert answer.status_code == 404 and "The search finds tasks by id or name" in page.text
    assert "987654321" in page.text and "/console/search" in page.links


@pytest.mark.parametrize(
    "path", ["/console/nothing", "/console/tasks/x", "/console/tasks/-1", "/console/static/1/x.js"]
)
async def test_an_unknown_address_is_a_page_too(browser: httpx.AsyncClient, path: str) -> None:
    answer = await browser.get(path)
    assert answer.status_code == 404 and "is no page of the console" in Page(answer.text).text


async def test_a_filter_with_an_error_names_the_word_and_what_is_allowed_and_asks_nothing(
    browser: httpx.AsyncClient, api: StubbedApi
) -> None:
    answer = await browser.get("/console/tasks?q=status%3Druning%20vo%3Datlas")
    assert answer.status_code == 400 and api.asked == []
    assert "status=runing allowed: running? one of registered" in Page(answer.text).text
    assert 'value="status=runing vo=atlas"' in answer.text


async def test_the_filter_is_what_the_api_is_asked(browser: httpx.AsyncClient, api: StubbedApi) -> None:
    await browser.get("/console/tasks?q=status%3Drunning%20vo%3Datlas&before=90")
    (asked,) = api.queries("task/list")
    assert asked == {"status": ["running"], "vo": ["atlas"], "before_id": ["90"], "limit": ["51"], "jobs": ["false"]}


async def test_pages_go_by_the_last_id_of_the_page_before(browser: httpx.AsyncClient, api: StubbedApi) -> None:
    row = RECORDED["task/list"]["data"][0]
    api.says("task/list", [{**row, "task_id": 1000 - n} for n in range(51)])
    api.says("task/estimate", 12_345)
    page = Page((await browser.get("/console/tasks?q=vo%3Datlas")).text)
    assert re.search(r"The newest first; about 12.345 in all", page.text)
    assert [one["vo"] for one in api.queries("task/estimate")] == [["atlas"]]
    assert "/console/tasks?q=vo%3Datlas&before=951" in page.links and "/console/tasks/950" not in page.links


@pytest.mark.parametrize("path", ["/console/tasks?statsu=running", "/console/system?x=1", "/console/tasks/7?all=1"])
async def test_a_word_of_the_address_that_no_page_knows_is_named(browser: httpx.AsyncClient, path: str) -> None:
    answer = await browser.get(path)
    assert answer.status_code == 400 and "a word too many" in Page(answer.text).text


async def test_what_is_for_others_says_so(browser: httpx.AsyncClient, api: StubbedApi) -> None:
    api.answers["condition"] = lambda request: envelope(None, "ada needs the role operator", success=False, status=403)
    answer = await browser.get("/console/system")
    assert answer.status_code == 403 and "ada needs the role operator" in Page(answer.text).text


async def test_of_a_task_of_others_its_state_is_shown_and_who_may_see_more(
    browser: httpx.AsyncClient, api: StubbedApi
) -> None:
    details = RECORDED["task/get_details"]["data"]
    told = {"task_id", "status", "state_change_time", "files", "jobs", "retry_at", "old_status"}
    view = {name: value if name in told else None for name, value in details.items()}
    view = {**view, "datasets": [], "withheld": "names, places and texts are told to the owner"}
    api.says("task/get_details", view)
    api.says("explain/task", {"task": view, "files": {}, "jobs": {}, "text": "task 7"})
    api.says("task/get_commands", 2, "task 7 not found", success=False)
    for path in ("", "/why", "/decisions", "/timeline"):
        answer = await browser.get(f"/console/tasks/7{path}")
        assert answer.status_code == 200, Page(answer.text).text
        assert path == "/timeline" or "names, places and texts are told to the owner" in Page(answer.text).text
        assert details["task_name"] not in answer.text


async def test_a_task_shows_when_it_ends_what_its_scouts_measured_and_where_its_output_is(
    browser: httpx.AsyncClient, api: StubbedApi
) -> None:
    details = RECORDED["task/get_details"]["data"]
    places = [{"storage": "ALPHA_DISK", "n_files": 3, "n_bytes": 3_000_000, "complete": True},
              {"storage": "BETA_DISK", "n_files": 1, "n_bytes": 1_000_000, "complete": False}]  # fmt: skip
    made = {"n_files_made": 3, "n_bytes": 3_000_000, "places": places}
    datasets = [one | (made if one["type"] == "output" else {}) for one in details["datasets"]]
    measured = {"ram_count": 1450, "measured_units": ["ram_count"], "datasets": datasets}
    api.says("task/get_details", details | measured)
    ends = {"earliest_at": "2026-11-27T12:00:00+00:00", "latest_at": None, "told": "600 of 1000 units are left"}
    due = {"due_at": "2026-11-28T12:00:00+00:00", "looked_at": None}
    api.says("explain/task", RECORDED["explain/task"]["data"] | {"ends": ends, "deadline": due})
    text = Page((await browser.get("/console/tasks/7")).text).text
    assert "It ends between 2026-11-27 12:00:00 UTC" in text and "and a time that nobody can say" in text
    assert "wants it by 2026-11-28 12:00:00 UTC" in text and "600 of 1000 units are left" in text
    cells = "".join(text.split())
    assert "memory1600MBPerCore1450MBPerCoremeasuredbyitsscouts" in cells
    assert "3MBALPHA_DISK(complete,3MB),BETA_DISK(1of3files,1MB)" in cells


async def test_what_if_asks_the_server_with_the_seed_of_the_decision_and_shows_what_differs(
    browser: httpx.AsyncClient, api: StubbedApi
) -> None:
    decision = next(one for one in RECORDED["explain/task"]["data"]["decisions"] if one["kind"] == "job")
    path = f"/console/tasks/7/what-if?decision={decision['decision_id']}"
    assert path in Page((await browser.get("/console/tasks/7/why")).text).links
    answer = await browser.get(f"{path}&ram_count=1000&parameter=jobbroker.A%3D1%20jobbroker.B%3D2")
    assert api.queries("grid/what_if") == [
        {
            "task_id": ["7"], "chunk_id": [str(decision["chunk_id"])], "seed": [str(decision["seed"])],
            "number": ["ram_count=1000"], "parameter": ["jobbroker.A=1", "jobbroker.B=2"], "limit": ["100"],
        }
    ]  # fmt: skip
    text = Page(answer.text).text
    changes = {one["name"]: one for one in RECORDED["grid/what_if"]["data"]["changes"]}
    assert "passes now" in text and all(name in text for name in changes) and 'value="1000"' in answer.text


async def test_what_if_takes_numbers_as_pages_show_them_and_names_what_is_none_in_the_form(
    browser: httpx.AsyncClient, api: StubbedApi
) -> None:
    known = api.answers["grid/what_if"]
    path = "/console/tasks/7/what-if"
    await browser.get(f"{path}?ram_count=6%E2%80%AF200&cpu_time=1.2e3&core_count=%208.0")
    assert api.queries("grid/what_if")[-1]["number"] == ["ram_count=6200", "core_count=8", "cpu_time=1200"]
    said = "number: value 'ram_count=many': allowed: NAME=VALUE, a whole number"

    def refused(request: httpx.Request) -> httpx.Response:
        problems = [{"field": "number", "message": said}]
        no = httpx.Response(422, json={"success": False, "message": said, "data": 5, "problems": problems})
        return no if request.url.params.get_list("number") else known(request)

    api.answers["grid/what_if"] = refused
    answer = await browser.get(f"{path}?ram_count=many&core_count=4")
    page = Page(answer.text)
    assert answer.status_code == 400 and said in page.text and "What differs" not in page.text
    assert 'value="many"' in answer.text and 'value="4"' in answer.text, "it can be mended"
    assert "For real" not in page.text


async def test_two_decisions_are_compared_by_the_service_and_the_rest_of_many_changes_is_counted(
    browser: httpx.AsyncClient, api: StubbedApi
) -> None:
    compared = RECORDED["explain/difference"]["data"]
    api.says("explain/difference", {**compared, "n_changes": {**compared["n_changes"], "other reason": 4000}})
    text = Page((await browser.get("/console/tasks/7/decisions?first=92&second=93")).text).text
    asked = {"task_id": ["7"], "first": ["92"], "second": ["93"], "limit": ["100"]}
    assert api.queries("explain/difference") == [asked]
    assert "From decision 92 to 93" in text and all(one["name"] in text for one in compared["changes"])
    assert "more; together 3 passes now, 4\u202f000 other reason." in text
    api.says("explain/difference", {**compared, "changes": None, "n_changes": {}})
    text = Page((await browser.get("/console/tasks/7/decisions?first=92&second=93")).text).text
    assert "they have nothing to compare" in text and "From decision" not in text


async def test_queues_are_listed_so_many_on_a_page_and_the_next_page_goes_on_behind_the_last(
    browser: httpx.AsyncClient, api: StubbedApi
) -> None:
    row = RECORDED["grid/queues"]["data"][0]
    api.says("grid/queues", [{**row, "queue": f"Q{n:03}"} for n in range(201)])
    page = Page((await browser.get("/console/queues?q=q")).text)
    asked = {"part": ["q"], "order": ["queue"], "limit": ["201"], "records": ["false"]}
    assert api.queries("grid/queues") == [asked]
    assert "200 queues, and there are more" in page.text and "Q199" in page.text and "Q200" not in page.text
    assert "/console/queues?q=q&after=Q199" in page.links
    await browser.get("/console/queues?q=q&after=Q199&order=running")
    assert api.queries("grid/queues")[1] == {**asked, "order": ["running"], "after": ["Q199"]}


async def test_what_if_of_a_task_without_a_decision_about_queues_says_so(
    browser: httpx.AsyncClient, api: StubbedApi
) -> None:
    api.says("explain/task", {**RECORDED["explain/task"]["data"], "decisions": []})
    answer = await browser.get("/console/tasks/7/what-if")
    assert answer.status_code == 404 and "no decision about queues is kept of task 7" in Page(answer.text).text


async def test_use_of_shares_is_drawn_over_a_day_with_its_numbers_in_words(browser: httpx.AsyncClient) -> None:
    use = RECORDED["share/history"]["data"]
    page = await browser.get("/console/shares")
    drawn = [name for name in use["names"] if any(one["percent"].get(name) for one in use["buckets"])]
    assert drawn and page.text.count('<svg class="line"') == len(drawn)
    assert all(f'aria-label="{name} over 24 hours: at most ' in page.text for name in drawn)


async def test_the_first_page_is_small_over_the_wire(visitor: httpx.AsyncClient, browser: httpx.AsyncClient) -> None:
    """With everything that it loads, packed."""
    answer = await browser.get("/console/", headers={"Accept-Encoding": "gzip"})
    assert answer.headers["content-encoding"] == "gzip"
    loaded = re.findall(r'(?:href|src)="(/console/static/[^"]+)"', answer.text)
    assert {one.rpartition("/")[2] for one in loaded} == {"console.css", "orrery.svg", "htmx.js"}
    script = static_files()["htmx.js"]
    assert b"registerExtension" in script and b"sse:connect" in script, "an extension that comes later misses the page"
    n_bytes = len(gzip.compress(answer.content, 9))
    for path in loaded:
        file = await visitor.get(path, headers={"Accept-Encoding": "gzip"})
        assert file.status_code == 200 and "immutable" in file.headers["cache-control"]
        n_bytes += len(gzip.compress(file.content, 6))
    assert n_bytes < LARGEST_FIRST_PAGE_BYTES


async def test_a_part_that_is_refused_stays_and_asks_again(visitor: httpx.AsyncClient) -> None:
    """The library swaps every answer but those of its `noSwap`, and reads that as JSON where it begins with a brace."""
    page = (await visitor.get("/console/sign-in")).text
    (config,) = re.findall(r"<meta name=\"htmx-config\" content='({[^']*})'>", page)
    assert {"4xx", "5xx", 204} <= set(json.loads(config)["noSwap"])
    assert page.index("htmx-config") < page.index("<script")
    library = static_files()["htmx.js"].decode()
    assert 'meta[name="htmx-config"]' in library and "noSwap:[204,304]" in library and '[0]+"xx"' in library


async def test_a_failure_of_ours_is_a_page_without_details(
    browser: httpx.AsyncClient, api: StubbedApi, caplog: pytest.LogCaptureFixture
) -> None:
    api.says("explain/queue", {"queue": None})
    answer = await browser.get("/console/queues/CERN")
    assert answer.status_code == 500 and "It is our mistake" in answer.text and "Traceback" not in answer.text
    assert "a page failed" in caplog.text


async def test_the_root_leads_to_the_console(web: FastAPI) -> None:
    async with browser_at(web) as browser:
        for path in ("/", "/console"):
            assert (await browser.get(path)).headers["location"] == "/console/"


def test_the_recorded_answers_are_envelopes() -> None:
    assert RECORDED and all(one["success"] is True for one in RECORDED.values())
    assert len(json.dumps(RECORDED)) < 500_000


@pytest.mark.parametrize("path", ["tasks/{}", "tasks/{}/why", "jobs/{}", "tasks/{}/commands/kill", "tasks/{}/what-if"])
async def test_a_number_that_is_no_id_is_no_page(browser: httpx.AsyncClient, path: str) -> None:
    for digits in ("9" * 19, "1" * 5000):
        answer = await browser.get(f"/console/{path.format(digits)}")
        assert answer.status_code == 404 and "There is no such page" in answer.text


async def test_large_parts_are_packed_beside_the_loop(
    browser: httpx.AsyncClient, api: StubbedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = dict[bool, threading.Thread]()

    def watched(response: Response) -> Response:
        threads[len(response.body) >= 200_000] = threading.current_thread()
        return packed(response)

    monkeypatch.setattr(visits, "packed", watched)
    row = RECORDED["task/list"]["data"][0]
    for n_rows in (1, 1000):
        api.says("task/list", [{**row, "task_id": n, "task_name": f"{n}" * 20} for n in range(1, n_rows + 1)])
        await browser.get(f"/console/search?q=name{n_rows}", headers={"HX-Request": "true"})
    assert threads[False] is threading.main_thread() and threads[True] is not threading.main_thread()


async def test_free_space_is_a_size(browser: httpx.AsyncClient, api: StubbedApi) -> None:
    sites = RECORDED["grid/sites"]["data"]
    api.says("grid/sites", [{**one, "space_free_gb": 17_860_000.0} for one in sites])
    for path in ("/console/sites", f"/console/sites/{sites[0]['site']}"):
        assert "17.9 PB" in Page((await browser.get(path)).text).text


async def test_a_job_shows_its_chain_those_made_with_it_and_the_end_of_its_output(
    browser: httpx.AsyncClient, api: StubbedApi
) -> None:
    page = Page((await browser.get("/console/jobs/7")).text)
    assert "The end of its output" not in page.text and "It follows" not in page.text
    row = {"relation_type": "retry", "status": "failed", "queue": "AGLT2", "attempt_number": 1, "end_time": None}
    chain = [{**row, "job_id": 5, "place": -1, "error_dialog": "it died"},
             {**row, "job_id": 9, "place": 1, "status": None, "error_dialog": None}]  # fmt: skip
    explained = RECORDED["explain/job"]["data"]
    api.says("explain/job", {**explained, "chain": chain, "siblings": [{"job_id": 8, "status": "running"}]})
    output = {"job_id": 7, "stdout": "x" * 30_000 + "the last line", "reported_at": "2026-11-27T10:00:00+00:00"}
    api.says("job/get_stdout", output)
    answer = await browser.get("/console/jobs/7")
    page = Page(answer.text)
    assert "It follows" in page.text and "it died" in page.text and "its row is gone" in page.text
    assert {"/console/jobs/5", "/console/jobs/9", "/console/jobs/8"} <= set(page.links)
    assert "the last line" in page.text and len(answer.text) < 60_000


async def test_errors_of_a_task_lead_to_the_jobs_that_they_count(browser: httpx.AsyncClient, api: StubbedApi) -> None:
    page = Page((await browser.get("/console/tasks/7")).text)
    (most, *_) = RECORDED["explain/task"]["data"]["failures"]
    of_all, at_one = f"/console/jobs?q=like%3D{most['job_id']}", f"like%3D{most['job_id']}%20queue%3DAGLT2"
    assert of_all in page.links and f"/console/jobs?q={at_one}" in page.links
    answer = await browser.get(f"/console/jobs?q={at_one}")
    assert api.queries("job/list")[-1]["like"] == [str(most["job_id"])]
    assert f"orrery jobs --like {most['job_id']} --queue AGLT2" in Page(answer.text).text


async def test_home_names_the_copies_of_each_service_and_what_waits_on_the_bus(
    browser: httpx.AsyncClient, api: StubbedApi
) -> None:
    condition = RECORDED["condition"]["data"]
    services = [{**one, "n_copies": 3, "runs": one["service"] != "watchdog"} for one in condition["services"]]
    waits = {"n_waiting": 7, "waiting_since": "2026-11-27T10:00:00+00:00"}
    queues = [{**one, **(waits if place == 0 else {})} for place, one in enumerate(condition["queues_of_bus"])]
    api.says("condition", {**condition, "services": services, "queues_of_bus": queues})
    text = Page((await browser.get("/console/")).text).text
    assert "✓ job-dispatch 3 copies" in text and "✗ watchdog does not run" in text
    assert f"7 messages wait in 1 of {len(queues)} queues" in text


async def test_a_check_with_many_queues_shows_the_nearest_and_leads_to_more_of_them(
    browser: httpx.AsyncClient, api: StubbedApi
) -> None:
    explained = RECORDED["explain/task"]["data"]
    decision = next(one for one in explained["decisions"] if any(entry["check"] for entry in one["queues"]))
    entry = next(one for one in decision["queues"] if one["check"])
    numbers = [{"check": entry["check"], "n_queues": 4000, "n_entries": 4100}]
    api.says("explain/task", {**explained, "decisions": [{**decision, "queues": [entry], "by_check": numbers}]})
    answer = await browser.get("/console/tasks/7/why")
    page = Page(answer.text)
    more = f"/console/tasks/7/why?decision={decision['decision_id']}&check={entry['check']}"
    assert f"4\u202f000 by {entry['check']}" in page.text and "4\u202f099 more." in page.text and more in page.links
    await browser.get(more)
    (first, second) = api.queries("explain/task")
    assert (first["queues"], second["queues"]) == (["50"], ["500"])
    assert second["decision"] == [str(decision["decision_id"])] and "decision" not in first


async def test_jobs_of_a_task_with_many_are_told_as_more_than(browser: httpx.AsyncClient, api: StubbedApi) -> None:
    details = {**RECORDED["task/get_details"]["data"], "jobs": {"running": 10_000, "finished": 3}}
    api.says("task/get_details", {**details, "more_jobs": ["running"]})
    text = Page((await browser.get("/console/tasks/7")).text).text
    assert "more than 10\u202f000 ▶ running" in text and "more than 3" not in text
    assert api.queries("task/get_details")[0]["count_to"] == ["10000"]


async def test_pages_that_show_no_queues_ask_for_none(browser: httpx.AsyncClient, api: StubbedApi) -> None:
    for path in ("tasks/7", "tasks/7/decisions", "tasks/7/timeline", "jobs/7"):
        await browser.get(f"/console/{path}")
    asked = [*api.queries("explain/task"), *api.queries("explain/job")]
    assert len(asked) == 4 and all(one["queues"] == ["0"] for one in asked)
