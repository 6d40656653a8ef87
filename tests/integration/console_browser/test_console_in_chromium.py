"""Stories of people at the console, each in a browser of its own, on one system."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import asyncpg
import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from shared.events.task import TaskDefined
from tests import servers
from tests.integration.console_browser import people
from tests.integration.console_browser.accessibility import violations
from tests.integration.console_browser.chromium import chromium, context_of
from tests.integration.console_browser.crawling import crawl
from tests.integration.console_browser.stage import Pilot, Stage, stage_in

pytestmark = pytest.mark.timeout(240)
LIMIT = "jobbroker.NQUEUELIMITSITE"
#: more pages of one kind than the stories make: nothing that never ends is followed for ever
MOST_OF_KIND = 200
NewContext = Callable[..., BrowserContext]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def stage(
    servers_of_tests: servers.Servers, database_template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stage]:
    url = asyncio.run(servers.clone_template(servers_of_tests.database_url, database_template))
    try:
        with stage_in(tmp_path_factory.mktemp("system"), url) as stage:
            yield stage
    finally:
        asyncio.run(servers.drop_database(servers_of_tests.database_url, url))


@pytest.fixture
def new_context(stage: Stage, browser: Browser) -> Iterator[NewContext]:
    """Opens browsers of different people."""
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(context_of(browser, stage.address, **options))


@pytest.fixture
def operator(stage: Stage, new_context: NewContext) -> Page:
    """An operator's browser, signed in."""
    return people.by_link(new_context(), stage.orrery)


@pytest.fixture(scope="module")
def waiting(stage: Stage) -> int:
    """A task that finds no room: another one fills the only queue that it may use."""
    assert stage.orrery("config", "set", LIMIT, "1").code == 0
    first = stage.submit(0, "fills")
    stage.wait_for(first, "scouting")
    queue = stage.jobs(first, "activated")[0]["queue"]
    task_id = stage.submit(0, "waits", site=queue)
    stage.wait_for(task_id, "pending")
    return task_id


@pytest.fixture(scope="module")
def failed(stage: Stage) -> int:
    """A task whose only job failed, and which may try nothing again by itself."""
    task_id = stage.submit(3, "failed", maxAttempt=1, maxFailure=1, nFiles=1, skipScout=True)
    pilot, queue = Pilot(stage), stage.jobs(task_id, "activated")[0]["queue"]
    said = {"exe_error_code": 65, "exe_error_diag": "the payload of the story failed"}
    pilot.report(pilot.take(queue, task_id=task_id), "failed", **said)
    stage.wait_for(task_id, "failed")
    return task_id


@pytest.fixture(scope="module")
def running(stage: Stage) -> int:
    """A task of whose jobs some are done, one failed and some are with pilots."""
    task_id = stage.submit(3, "runs", nFiles=40, skipScout=True)
    pilot, queue = Pilot(stage), stage.jobs(task_id, "activated")[0]["queue"]
    said = {"exe_error_code": 65, "exe_error_diag": "the payload of the story failed"}
    for status in ("finished",) * 5 + ("failed",) + ("running",) * 3:
        job = pilot.take(queue, task_id=task_id)
        pilot.report(job, status, **(said if status == "failed" else {}))
    return task_id


@pytest.fixture(scope="module")
def parked(stage: Stage, waiting: int) -> int:
    """A message that a service could not handle while something was the matter."""
    body = TaskDefined(event_id=2**40, task_id=waiting).model_dump_json()

    async def park() -> int:
        connection = await asyncpg.connect(stage.environment["ORRERY_DATABASE_URL"])
        try:
            return await connection.fetchval(
                "INSERT INTO parked_messages (event_id, consumer, routing_key, body, reason)"
                " VALUES ($1, 'task-brokerage.task-defined', 'task.defined.v1', $2, 'the disk was full')"
                " RETURNING parked_id", 2**40, body,
            )  # fmt: skip
        finally:
            await connection.close()

    with ThreadPoolExecutor(1) as beside:  # Playwright has an event loop running in this thread
        return beside.submit(lambda: asyncio.run(park())).result()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pictures_of_the_readme_are_made(
    stage: Stage, waiting: int, running: int, new_context: NewContext, tmp_path: Path, scheme: str
) -> None:
    """With ORRERY_PICTURES they are put there: why a task waits, light; how far one is, dark."""
    folder = Path(os.environ.get("ORRERY_PICTURES") or tmp_path)
    name, path = {"light": ("why", f"tasks/{waiting}/why"), "dark": ("task", f"tasks/{running}")}[scheme]
    context = new_context(viewport={"width": 1200, "height": 760}, color_scheme=scheme)
    page = people.by_link(context, stage.orrery, path)
    page.screenshot(path=folder / f"{name}.png")
    assert (folder / f"{name}.png").stat().st_size > 20_000, "there is something on it"


def test_a_waiting_task_says_why_what_would_lift_it_and_goes_on_once_an_operator_did_that(
    stage: Stage, waiting: int, operator: Page, new_context: NewContext
) -> None:
    page = people.by_link(new_context(), stage.orrery, "", *people.OWNER)
    page.get_by_role("region", name="Waiting tasks").get_by_role("link", name=str(waiting), exact=True).click()
    page.get_by_role("link", name="why is it not running?").click()
    expect(page.get_by_role("main")).to_contain_text(re.compile(r"waits for .*room at \S+", re.IGNORECASE))
    nearest = page.locator("details.group").filter(has_text="nearest miss")
    expect(nearest.first).to_be_visible()
    page.get_by_role("link", name="What if a number were another one?").click()
    page.get_by_label("Runtime parameters").fill(f"{LIMIT}=1000")
    page.get_by_role("button", name="Decide again").click()
    expect(page.get_by_role("main")).to_contain_text(
        re.compile(r"as it is\s*✗ no place.*supposed\s*✓ placed", re.DOTALL)
    )
    expect(page.get_by_role("region", name="Differences")).to_contain_text("passes now")
    page.get_by_role("link", name=f"set {LIMIT} to 1000").click()
    expect(page.get_by_role("main")).to_contain_text("Operators whose token has the right modify may set it")
    operator.goto(page.url)
    page.goto(f"/console/tasks/{waiting}/why")
    expect(page.locator(".sentence")).to_contain_text("pending")
    expect(operator.get_by_role("main")).to_contain_text(
        re.compile(r"it is\s*1, set by .*it would be\s*1\s000 jobs", re.DOTALL)
    )
    operator.get_by_label("Why; it is shown with the parameter").fill("the story lifts it")
    operator.get_by_role("button", name=f"Set {LIMIT}").click()
    expect(operator.get_by_role("status")).to_contain_text(f"Done: config set: {LIMIT} = 1000")
    stage.wait_for(waiting, "scouting")
    page.reload()
    expect(page.locator(".sentence")).to_contain_text("scouting")
    expect(page.get_by_role("heading", name="Passed every check")).to_be_visible()


def test_the_keyboard_alone_leads_past_the_head_and_to_what_is_searched_for(waiting: int, operator: Page) -> None:
    operator.goto("/console/")
    operator.keyboard.press("Tab")
    expect(operator.get_by_role("link", name="Skip to the content")).to_be_focused()
    search = operator.get_by_role("searchbox")
    for _ in range(20):
        operator.keyboard.press("Tab")
        if search.evaluate("one => one === document.activeElement"):
            break
    operator.keyboard.type(str(waiting))
    operator.keyboard.press("Enter")
    expect(
        operator.get_by_role("region", name="Tasks").get_by_role("link", name=str(waiting), exact=True)
    ).to_be_visible()


def test_the_first_page_takes_at_most_60_kb(stage: Stage, new_context: NewContext) -> None:
    """Over the wire, with all that it loads, in a browser that has nothing of it yet."""
    page = people.by_link(new_context(), stage.orrery)
    context = new_context()
    context.add_cookies(page.context.cookies())
    first = context.new_page()
    first.goto("/console/", wait_until="load")
    sizes = dict(first.evaluate("performance.getEntries().map(one => [one.name, one.transferSize ?? 0])"))
    assert sum(sizes.values()) <= 60_000, sizes
    assert {name.rpartition(".")[2] for name in sizes} >= {"css", "js"}


def test_two_decisions_are_compared(waiting: int, operator: Page) -> None:
    operator.goto(f"/console/tasks/{waiting}/decisions")
    operator.get_by_role("button", name="Show the difference").click()
    expect(operator.get_by_role("heading", name="From decision")).to_be_visible()
    rows = operator.get_by_role("region", name="Differences").get_by_role("row")
    expect(rows.filter(has_text="passes now").first).to_be_visible()


def test_a_task_is_killed_after_the_page_said_what_that_does(stage: Stage, operator: Page) -> None:
    task_id = stage.submit(0, "killed")
    stage.wait_for(task_id, "scouting")
    operator.goto(f"/console/tasks/{task_id}")
    operator.get_by_role("link", name="kill", exact=True).click()
    said = operator.get_by_role("main")
    expect(said).to_contain_text("End a task and all its jobs.")
    expect(said).to_contain_text(re.compile(r"it has \d+ (activated|assigned)"))
    operator.get_by_label("Why; it is shown with the task").fill("<b onclick='x'>no longer</b> needed \u202e")
    operator.get_by_role("button", name=f"kill task {task_id}").click()
    expect(operator.get_by_role("status")).to_contain_text("Done: kill")
    stage.wait_for(task_id, "aborted")
    operator.reload()
    expect(operator.get_by_role("region", name="History")).to_contain_text(
        "<b onclick='x'>no longer</b> needed \\u202e"
    )


def test_failures_of_a_task_are_retried(stage: Stage, failed: int, operator: Page) -> None:
    operator.goto("/console/tasks")
    operator.get_by_role("link", name="failed", exact=True).click()
    operator.get_by_role("link", name=str(failed), exact=True).click()
    expect(operator.get_by_role("region", name="Errors")).to_contain_text("the payload of the story failed")
    operator.get_by_role("link", name="retry", exact=True).click()
    operator.get_by_role("button", name=f"retry task {failed}").click()
    expect(operator.get_by_role("status")).to_contain_text("Done: retry")
    stage.wait_for(failed, "scouting", "running")


def test_a_message_that_was_put_aside_is_sent_again(stage: Stage, parked: int, operator: Page) -> None:
    operator.get_by_role("link", name="1 messages").click()
    expect(operator.get_by_role("article")).to_contain_text("the disk was full")
    operator.get_by_role("link", name="Replay or drop").click()
    expect(operator.get_by_role("region", name="Chosen messages")).to_contain_text("the disk was full")
    operator.get_by_role("button", name="Replay 1 message").click()
    expect(operator.get_by_role("status")).to_contain_text("1 of 1 sent again")
    expect(operator.get_by_role("main")).to_contain_text("nothing is parked")


def test_a_running_task_is_followed_without_loading_the_page_again(stage: Stage, running: int, operator: Page) -> None:
    operator.goto(f"/console/tasks/{running}")
    expect(operator.locator("#live")).to_contain_text("3 ▶ running")
    operator.evaluate("window.sameDocument = true")
    job = Pilot(stage).take(stage.jobs(running, "activated")[0]["queue"], task_id=running)
    Pilot(stage).report(job, "running")
    expect(operator.locator("#live")).to_contain_text("4 ▶ running")
    assert operator.evaluate("window.sameDocument")


def test_an_open_page_follows_its_task_by_hints(stage: Stage, operator: Page) -> None:
    """Nothing else would ask again so soon: the page's own time is 15 s, and 5 s are waited for."""
    task_id = stage.submit(3, "hinted")
    queue = stage.jobs(task_id, "activated")[0]["queue"]
    operator.goto(f"/console/tasks/{task_id}")
    with operator.expect_response(lambda one: one.url.endswith(f"/tasks/{task_id}"), timeout=5_000):
        job = Pilot(stage).take(queue, task_id=task_id)
        Pilot(stage).report(job, "running")
    expect(operator.locator("#live")).to_contain_text("1 ▶ running", timeout=5_000)


def test_a_stream_that_was_refused_at_first_is_asked_for_again(stage: Stage, operator: Page) -> None:
    """As a gateway does that is at its limit, or has no console to ask."""
    task_id = stage.submit(0, "refused")
    stage.wait_for(task_id, "scouting")
    operator.clock.install()
    operator.route("**/console/hints?*", lambda route: route.fulfill(status=429))
    with operator.expect_response(lambda one: "/console/hints" in one.url and one.status == 429):
        operator.goto("/console/tasks?q=name%3Drefused")
    operator.unroute("**/console/hints?*")
    with operator.expect_response(lambda one: "/console/hints" in one.url and one.status == 200):
        operator.clock.fast_forward(61_000)
    assert stage.orrery("pause", str(task_id)).code == 0
    expect(operator.locator("#hints")).to_contain_text("1 changed", timeout=5_000)


def test_a_list_says_how_many_of_its_rows_have_changed_and_shows_them_when_it_is_asked_to(
    stage: Stage, operator: Page
) -> None:
    task_id = stage.submit(0, "listed")
    stage.wait_for(task_id, "scouting")
    operator.goto("/console/tasks?q=name%3Dlisted")
    expect(operator.locator("#hints")).to_be_empty()
    assert stage.orrery("pause", str(task_id)).code == 0
    expect(operator.locator("#hints")).to_have_text("1 changed: show", timeout=5_000)
    expect(operator.locator("tbody")).to_contain_text("scouting")
    operator.get_by_role("link", name="1 changed: show").click()
    expect(operator.locator("tbody")).to_contain_text("paused")


def test_several_tasks_get_a_command_after_a_page_said_which_it_hits(stage: Stage, operator: Page) -> None:
    ids = [stage.submit(0, f"several{n}") for n in range(2)]
    for task_id in ids:
        stage.wait_for(task_id, "scouting")
    operator.goto("/console/tasks?q=name%3Dseveral")
    for task_id in ids:
        operator.get_by_label(f"task {task_id}", exact=True).check()
    operator.get_by_label("Command on the tasks").select_option("pause")
    operator.get_by_role("button", name="Show what it hits").click()
    expect(operator.get_by_role("heading", name="pause: 2 tasks")).to_be_visible()
    operator.get_by_role("button", name="pause 2 tasks").click()
    expect(operator.get_by_role("status").first).to_contain_text("pause: 2 of 2 tasks")
    for task_id in ids:
        stage.wait_for(task_id, "paused")


def test_a_what_if_says_which_queues_would_take_the_task(stage: Stage, waiting: int, operator: Page) -> None:
    operator.goto(f"/console/tasks/{waiting}/why")
    operator.get_by_role("link", name="What if a number were another one?").click()
    operator.get_by_label("memory").fill("900000")
    operator.get_by_role("button", name="Decide again").click()
    expect(operator.get_by_role("heading", name="What differs")).to_be_visible()
    expect(operator.get_by_role("main")).to_contain_text("no place")


def test_who_signed_in_at_the_issuer_signs_in_again_after_a_while_and_is_back_at_the_same_page(
    stage: Stage, waiting: int, new_context: NewContext
) -> None:
    page, path = new_context().new_page(), f"/console/tasks/{waiting}/timeline"
    page.goto(path)
    stage.issuer.lifetime_s = 2
    people.at_issuer(page, "otto")
    expect(page).to_have_url(f"{stage.address}{path}")
    expect(page.locator(".person")).to_contain_text("iam:otto")
    stage.issuer.lifetime_s = 600
    signed_out = page.get_by_role("heading", name="Sign in", exact=True)
    stage.until(lambda: page.goto(path) and signed_out.is_visible(), bool)
    people.at_issuer(page, "otto")
    expect(page).to_have_url(f"{stage.address}{path}")
    expect(page.get_by_role("heading", name="Jobs by state")).to_be_visible()


def test_a_copied_cookie_is_nobody_after_signing_out(stage: Stage, new_context: NewContext) -> None:
    context, thief = new_context(), new_context()
    page = people.by_link(context, stage.orrery)
    thief.add_cookies(context.cookies())
    stolen = thief.new_page()
    stolen.goto("/console/tasks")
    expect(stolen.get_by_role("heading", name="Tasks")).to_be_visible()
    page.locator(".person summary").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in", exact=True)).to_be_visible()
    stolen.reload()
    expect(stolen.get_by_role("heading", name="Sign in", exact=True)).to_be_visible()


def test_two_people_with_different_rights_see_different_commands(
    stage: Stage, waiting: int, operator: Page, new_context: NewContext
) -> None:
    user = people.by_link(new_context(), stage.orrery, f"tasks/{waiting}", *people.USER)
    operator.goto(f"/console/tasks/{waiting}")
    expect(operator.get_by_role("link", name="set-priority", exact=True)).to_be_visible()
    expect(user.get_by_role("main")).to_contain_text("Only its state is shown to you")
    expect(user.locator(".commands a")).to_have_count(0)
    expect(user.get_by_role("link", name="System")).to_be_visible()
    user.goto("/console/system/parked")
    expect(user.get_by_role("heading", name="This is for others")).to_be_visible()


def test_without_scripts_a_task_is_filtered_for_paused_and_resumed(stage: Stage, new_context: NewContext) -> None:
    task_id = stage.submit(0, "scriptless")
    stage.wait_for(task_id, "scouting")
    page = people.by_link(new_context(java_script_enabled=False), stage.orrery, "tasks")
    for filled, verb, status in (("status=scouting", "pause", "paused"), ("status=paused", "resume", "scouting")):
        page.goto("/console/tasks")
        page.get_by_label("Filter").fill(filled)
        page.get_by_role("button", name="Filter").click()
        page.get_by_role("link", name=str(task_id), exact=True).click()
        page.get_by_role("link", name=verb, exact=True).click()
        page.get_by_role("button", name=f"{verb} task {task_id}").click()
        expect(page.get_by_role("status")).to_contain_text(f"Done: {verb}")
        stage.wait_for(task_id, status)


@pytest.fixture(scope="module")
def opened(stage: Stage, browser: Browser, waiting: int, running: int) -> dict[str, list[str]]:
    """Addresses of every kind that a link of the console leads to."""
    with context_of(browser, stage.address) as context:
        people.by_link(context, stage.orrery)
        cookies = {one["name"]: one["value"] for one in context.cookies()}
    headers = {"Accept": "text/html"}
    with httpx.Client(base_url=stage.address, cookies=cookies, headers=headers, trust_env=False, timeout=60) as client:
        return crawl(client, [f"/console/tasks/{running}", "/console/"], MOST_OF_KIND)


def one_of_each(opened: dict[str, list[str]]) -> list[str]:
    """A page of each kind, the fullest where words behind the ? differ: with a decision, with two of them."""
    fullest = {kind.partition("?")[0]: addresses[0] for kind, addresses in sorted(opened.items())}
    return [address for kind, address in fullest.items() if "/static/" not in kind]


def test_every_link_of_the_console_leads_to_a_page_without_an_error(opened: dict[str, list[str]]) -> None:
    pages = {kind for kind in opened if "/static/" not in kind}
    wanted = ("tasks/N/why", "tasks/N/decisions", "tasks/N/timeline", "tasks/N/commands/N", "jobs/N", "queues/N")
    assert {f"/console/{one}" for one in (*wanted, "shares/N", "system/parked", "system/audit")} <= pages
    assert {kind.rpartition("/")[2] for kind in opened if "/static/" in kind} >= {"console.css", "htmx.js"}
    assert {kind: len(ones) for kind, ones in opened.items() if len(ones) >= MOST_OF_KIND} == {}, "some were left"


def test_no_page_breaks_a_rule_of_wcag_in_either_theme(
    opened: dict[str, list[str]], stage: Stage, new_context: NewContext
) -> None:
    page, found = people.by_link(new_context(), stage.orrery), dict[str, str]()
    visitor = new_context().new_page()
    for address in one_of_each(opened):
        found |= violations(page, address)
    found |= violations(visitor, "/console/sign-in")
    for path in ("nothing", "search?q=CERN", "tasks?q=status%3Druning"):
        found |= violations(page, f"/console/{path}")
    assert found == {}


def test_no_page_is_wider_than_a_narrow_screen(
    opened: dict[str, list[str]], stage: Stage, new_context: NewContext
) -> None:
    page, wider = people.by_link(new_context(viewport={"width": 320, "height": 640}), stage.orrery), dict[str, int]()
    for address in one_of_each(opened):
        page.goto(address)
        wider[address] = page.evaluate("document.documentElement.scrollWidth")
    assert {address: width for address, width in wider.items() if width > 320} == {}
