import io

import pytest
from rich.console import Console

from services.cli.addresses import SERVICES, Addresses
from services.cli.client import Client
from services.cli.demo.display import PlainDisplay, headline, picture
from services.cli.demo.observation import Observer
from tests.unit.cli.fake_services import FakeServices

METRICS = "# TYPE orrery_outbox_published_total counter\norrery_outbox_published_total 41.0\n"


@pytest.fixture
def observer(services: FakeServices):
    client = Client(Addresses(dict.fromkeys(SERVICES, (services.url,))), token="t")
    observer = Observer(client, [7])
    yield observer
    observer.close()


def task(finished: int, status: str = "running"):
    dataset = {"type": "input", "n_files": 10, "n_files_used": 10, "n_files_finished": finished, "n_files_failed": 0}
    jobs = {"running": 10 - finished, "finished": finished}
    return {"task_id": 7, "task_name": "mc", "status": status, "datasets": [dataset], "jobs": jobs}


def test_an_observation_counts_files_jobs_queues_and_events(services, observer):
    services.says("task/get_details", task(4))
    services.says("grid/queues", [{"queue": "Q", "jobs": {"running": 6}}, {"queue": "IDLE", "jobs": {}}])
    services.answers["/metrics"] = (200, METRICS)
    seen = observer.look()
    assert seen.fraction_done == 0.4
    assert seen.jobs_ended == 4
    assert [load.queue for load in seen.queues] == ["Q"]
    assert seen.events_total == 41, "copies at one address are asked once"
    assert "40% of the files done" in headline(seen)


def test_what_cannot_be_asked_keeps_its_last_value_and_is_named(services, observer):
    services.says("task/get_details", task(4))
    services.says("grid/queues", [])
    observer.look()
    services.answers["task/get_details"] = (503, {"success": False, "message": "starting", "data": None})
    seen = observer.look()
    assert seen.fraction_done == 0.4
    assert "503" in seen.unanswered


def test_rates_and_time_left_come_from_two_looks(services, observer):
    services.says("grid/queues", [])
    services.says("task/get_details", task(2))
    observer.look()
    services.says("task/get_details", task(5))
    seen = observer.look()
    assert seen.jobs_per_s > 0
    assert seen.files_per_s[7] > 0
    assert seen.left_s[7] > 0


def test_the_picture_and_the_lines_name_every_task(services, observer):
    services.says("grid/queues", [{"queue": "Q", "jobs": {"running": 6}}])
    services.says("task/get_details", task(4))
    seen = observer.look()
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(picture(seen))
    PlainDisplay(console).show(seen)
    text = console.export_text()
    assert "task 7 running: files 4/10 finished" in text
    assert any(line.startswith("Q ") for line in text.splitlines())
