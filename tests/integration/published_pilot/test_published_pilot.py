"""PanDA's published pilot, unmodified, takes jobs from the services and reports them.

Each runs in a PID namespace of its own, and reaches nothing but this machine. All begin together, because the pilot
waits for two minutes before it reports a failure; the tests are in the order in which the pilots get there.
"""

from __future__ import annotations

import asyncio
import json
import tarfile
import time
import zlib

import asyncpg
import pytest

from tests.integration.published_pilot import world
from tests.integration.published_pilot.conftest import Story, System
from tests.integration.published_pilot.events import ENDS_BEFORE
from tests.integration.published_pilot.package import PILOT

pytestmark = pytest.mark.timeout(400)
Stories = dict[str, Story]


async def workers(system: System) -> list[tuple[str, str]]:
    """Queues and states of the workers that pilots told of."""
    connection = await asyncpg.connect(system.database.url)
    try:
        return [(row["queue"], row["status"]) for row in await connection.fetch("SELECT queue, status FROM workers")]
    finally:
        await connection.close()


def test_a_job_with_input_outputs_and_log_is_finished_and_its_outputs_are_in_the_catalogue(
    system: System, stories: Stories
) -> None:
    story = stories["PILOT_FINISHED"]
    assert story.pilot.wait() == 0, story.pilot.text[-5000:]
    job = system.wait_for(story.job_id, "finished")
    written, log = job["spec"]["outFiles"].split(",")
    assert world.path_of(system.storages, "user.tester", written).read_bytes() == world.INPUT
    with tarfile.open(world.path_of(system.storages, "user.tester", log)) as content:
        assert any(name.endswith("payload.stdout") for name in content.getnames())
    for lfn, dataset in zip((written, log), job["spec"]["realDatasets"].split(","), strict=True):
        (file,) = system.get("catalogue/dataset", name=dataset, include_files=True)["files"]
        place = world.path_of(system.storages, "user.tester", lfn)
        assert (file["lfn"], file["size_bytes"]) == (lfn, place.stat().st_size)
        assert file["checksum"] == f"ad:{zlib.adler32(place.read_bytes()):08x}"
    assert job["start_time"] < job["end_time"] and job["report"]["pilot_timing"]
    assert job["worker"] == "factory-1:7" and asyncio.run(workers(system)) == [("PILOT_FINISHED", "finished")]
    assert json.loads((story.folder / "secrets").read_text()) == {"LOGIN": 'a "secret"'}


def test_a_pilot_shows_the_output_of_its_payload_and_kills_its_job_as_it_is_told(
    system: System, stories: Stories
) -> None:
    story = stories["PILOT_KILLED"]
    system.wait_for(story.job_id, "running")
    system.post("job/set_command", {"job_id": story.job_id, "command": "tail payload.stdout"})
    deadline = time.monotonic() + 60
    while "this payload begins" not in system.http.get(f"/api/v1/job/get_stdout?job_id={story.job_id}").text:
        assert time.monotonic() < deadline, story.pilot.text[-5000:]
        time.sleep(0.2)
    system.post("job/set_command", {"job_id": story.job_id, "command": "tobekilled"})
    job = system.wait_for(story.job_id, "failed")
    assert (job["error_source"], job["error_code"]) == ("pilot", 1144)


def test_a_final_report_during_an_outage_of_the_database_is_not_lost(system: System, stories: Stories) -> None:
    story = stories["PILOT_OUTAGE"]
    system.wait_for(story.job_id, "running")
    system.database.cut()
    (story.folder / "go").touch()
    try:
        story.pilot.wait_for_line("final server update")
        story.pilot.wait_for_line("server update attempt 2/")
    finally:
        system.database.restore()
    system.wait_for(story.job_id, "finished")
    assert story.pilot.wait() == 0


def test_a_payload_that_fails_fails_its_job_with_its_codes_and_its_log(system: System, stories: Stories) -> None:
    story = stories["PILOT_FAILED"]
    story.pilot.wait()
    job = system.wait_for(story.job_id, "failed")
    assert (job["error_source"], job["error_code"]) == ("payload", 3)
    # newer pilots have a meaning of their own for this exit code
    code = 1305 if system.launcher.pilot.name.endswith(PILOT.version) else 1368
    assert (job["report"]["trans_exit_code"], job["report"]["pilot_error_code"]) == (3, code)
    (log,) = job["report"]["outputs"]
    with tarfile.open(world.path_of(system.storages, "user.tester", log)) as content:
        (errors,) = [name for name in content.getnames() if name.endswith("payload.stderr")]
        file = content.extractfile(errors)
        assert file is not None and b"this payload fails" in file.read()


def test_a_log_that_the_pilot_of_an_event_service_cannot_write_fails_its_job_and_its_events_are_merged(
    system: System, stories: Stories
) -> None:
    """3.7.0.36 writes the log into the folder that it renamed before: its executor of events left it there."""
    if not system.launcher.pilot.name.endswith(PILOT.version):
        pytest.skip(ENDS_BEFORE)
    story = stories[world.QUEUE_WITH_LOG]
    system.wait_for(story.job_id, "failed")
    spec = system.job(system.activated(story.task_id))["spec"]  # of its merge job: its end was counted by then
    job = system.job(story.job_id)
    assert (job["error_source"], job["error_code"], job["job_sub_status"]) == ("pilot", 1165, "pilot_failed")
    tars = sorted(f"zip://{one.name}" for one in (story.folder / "orrery-events").iterdir())
    assert (spec["eventServiceMerge"], sorted(spec["inFiles"].split(","))) == ("True", tars)


def test_pilots_asked_nobody_else(system: System, stories: Stories) -> None:
    for story in stories.values():
        story.pilot.wait()
    assert stories and world.SCRIPT_URL in system.outside.asked and set(system.outside.asked) <= set(world.PAGES)
