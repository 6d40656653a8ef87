"""The published pilot's event service, to its end: ranges asked, failed and finished, tars stored and merged.

The task writes no log. With one, the pinned pilot ends at its log, which `test_published_pilot` shows.
"""

from __future__ import annotations

import ast
import asyncio
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from shared.states.event_range import STATUS_OF_CODE
from shared.states.task import FINAL
from tests.drawn import THIRD
from tests.integration.published_pilot import events, world
from tests.integration.published_pilot.conftest import STATUS_WITHIN_S, System
from tests.integration.published_pilot.package import PILOT

pytestmark = [pytest.mark.timeout(400), pytest.mark.drawn(0, THIRD)]
PAYLOAD_FAILED = 1220


@dataclass
class Story:
    """A task of event service, its two jobs, and what was said and moved for them.

    `log`: what the pilot of the first says; `ranges` and `tars`: as they are stored; `transfers`: of the object store.
    """

    task_id: int
    consumer: dict[str, Any]
    merge: dict[str, Any]
    log: str
    ranges: list[dict[str, Any]]
    tars: list[dict[str, Any]]
    transfers: list[dict[str, Any]]
    store: Path

    def said(self, words: str) -> list[Any]:
        """What stands in the pilot's log behind these words, in its order."""
        return [ast.literal_eval(line.partition(words)[2]) for line in self.log.splitlines() if words in line]

    def name(self, range_: dict[str, Any]) -> str:
        """A stored range as pilots name it."""
        numbers = (range_[one] for one in ("task_id", "job_id", "file_id", "job_process_id", "attempt_nr"))
        return "-".join(map(str, numbers))


@pytest.fixture(scope="module")
def story(system: System, tmp_path_factory: pytest.TempPathFactory) -> Story:
    """A pilot processes the ranges of a job, then another one merges what it wrote."""
    if not system.launcher.pilot.name.endswith(PILOT.version):
        pytest.skip(events.ENDS_BEFORE)
    directory = tmp_path_factory.mktemp("events")
    (store := directory / "store").mkdir()
    task_id, consumer = system.submit(events.task(world.EVENTS_QUEUE, has_log=False))
    log = run(system, directory / "consumer", store, consumer, "merging")
    merge = next_job(system, task_id)
    run(system, directory / "merge", store, merge, "finished", input_is_here=False)
    wait_until_ended(system, task_id)  # then its ranges are what they stay
    ranges, tars = asyncio.run(stored(system.database.url, task_id))
    transfers = [json.loads(line) for line in (store / "calls").read_text().splitlines()]
    return Story(task_id, system.job(consumer), system.job(merge), log, ranges, tars, transfers, store)


def run(system: System, directory: Path, store: Path, job_id: int, status: str, **how: Any) -> str:
    """The log of a pilot until its job is in a state; after its last report it would wait for another minute."""
    pilot = system.launcher.start(world.EVENTS_QUEUE, directory, **how, **events.node(store))
    try:
        system.wait_for(job_id, status, "failed", "closed")
        assert system.job(job_id)["status"] == status, pilot.text[-5000:]
    finally:
        pilot.end()
    return pilot.text


def wait_until_ended(system: System, task_id: int) -> None:
    deadline = time.monotonic() + STATUS_WITHIN_S
    while system.get("task/get_details", task_id=task_id)["status"] not in FINAL:
        assert time.monotonic() < deadline, system.get("task/get_details", task_id=task_id)
        time.sleep(0.2)


def next_job(system: System, task_id: int) -> int:
    """The job of the task that pilots may take now."""
    deadline = time.monotonic() + STATUS_WITHIN_S
    while not (jobs := system.get("job/list", task_id=task_id, status="activated")):
        assert time.monotonic() < deadline, system.get("job/list", task_id=task_id)
        time.sleep(0.2)
    [job] = jobs
    return int(job["job_id"])


async def stored(url: str, task_id: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The ranges of a task by file, events and attempt, and the tars that pilots told of by name."""
    connection = await asyncpg.connect(url)
    try:
        ranges = await connection.fetch(
            "SELECT r.*, t.lfn AS tar FROM event_ranges r LEFT JOIN event_range_files t USING (zip_row_id)"
            " WHERE r.task_id = $1 ORDER BY r.file_id, def_min_event_id, attempt_nr DESC", task_id,
        )  # fmt: skip
        tars = await connection.fetch("SELECT * FROM event_range_files WHERE task_id = $1 ORDER BY lfn", task_id)
        return [dict(row) for row in ranges], [dict(row) for row in tars]
    finally:
        await connection.close()


def test_the_pilot_asks_for_two_ranges_at_a_time_until_there_is_none(story: Story) -> None:
    job = story.consumer["job_id"]
    asked, given = story.said("Downloading new event ranges: "), story.said("Downloaded event ranges: ")
    wanted = {"pandaID": job, "jobsetID": story.consumer["spec"]["jobsetID"], "taskID": story.task_id, "nRanges": 2}
    assert asked == [wanted] * 4
    first, second = world.FILES_OF_EVENTS
    found = [[(one["LFN"], one["startEvent"], one["lastEvent"]) for one in answer["eventRanges"]] for answer in given]
    # the first of all failed, and is given again before those that nobody had
    assert found == [[(first, 1, 5), (first, 6, 10)], [(first, 1, 5), (second, 11, 15)], [(second, 16, 20)], []]
    names = [one["eventRangeID"] for answer in given for one in answer["eventRanges"]]
    assert sorted(names) == sorted(story.name(one) for one in story.ranges)
    assert [name.rpartition("-")[2] for name in names] == ["10", "10", "9", "10", "10"]


def test_a_range_that_failed_is_told_at_once_and_the_finished_ones_with_their_tars(story: Story) -> None:
    reports = [(one["version"], json.loads(one["eventRanges"])) for one in story.said("Updating event ranges: ")]
    failed, *finished = story.ranges
    assert [said for version, said in reports if version == 0] == [
        [{"errorCode": PAYLOAD_FAILED, "eventRangeID": story.name(failed), "eventStatus": "failed"}]
    ]
    groups = [group for version, said in reports if version == 1 for group in said]
    assert len(groups) == len(reports) - 1 and story.consumer["report"]["n_events"] == len(finished)
    told = {one["eventRangeID"]: group["zipFile"]["lfn"] for group in groups for one in group["eventRanges"]}
    assert told == {story.name(one): one["tar"] for one in finished}
    assert {one["eventStatus"] for group in groups for one in group["eventRanges"]} == {"finished"}
    files = sorted((group["zipFile"] for group in groups), key=lambda one: str(one["lfn"]))
    names = {"lfn": "lfn", "fsize": "size_bytes", "adler32": "adler32", "objstoreID": "obj_store_id",
             "pathConvention": "path_convention", "numEvents": "n_events"}  # fmt: skip
    assert files == [{said: tar[kept] for said, kept in names.items()} for tar in story.tars]
    assert {(one["objstoreID"], one["pathConvention"]) for one in files} == {(world.OBJECT_STORE_ID, 1000)}


def test_ranges_are_merged_and_the_attempt_that_failed_stays_as_it_failed(story: Story) -> None:
    found = [(STATUS_OF_CODE[one["status"]], one["error_code"], one["obj_store_id"]) for one in story.ranges]
    assert found == [("failed", PAYLOAD_FAILED, None), *[("merged", None, world.OBJECT_STORE_ID)] * 4]
    assert (story.consumer["status"], story.consumer["job_sub_status"]) == ("finished", "es_merge")
    assert (story.merge["status"], story.merge["job_type"]) == ("finished", "merge")


def test_tars_go_to_the_object_store_and_come_back_with_the_key_that_pilots_may_have(story: Story) -> None:
    tars = [one["lfn"] for one in story.tars]
    moved = [(one["command"], one["file"].replace(":", "/").rpartition("/")[2]) for one in story.transfers]
    assert sorted(moved) == [(command, tar) for command in ("download", "upload") for tar in tars]
    for one in story.transfers:
        assert (one["S3_ACCESS_KEY"], one["S3_SECRET_KEY"]) == tuple(events.KEYS.values())
        assert one.get("rse", one.get("rses")) == world.OBJECT_STORE
        assert one.get("scope") == "transient" or one["file"].startswith("transient:")
    for tar in story.tars:
        assert (story.store / "orrery-events" / tar["lfn"]).stat().st_size == tar["size_bytes"]


def test_the_merge_job_reads_the_tars_that_were_told_and_writes_every_event_once(system: System, story: Story) -> None:
    spec, tars = story.merge["spec"], story.tars
    output, store = spec["outFiles"], f"{world.OBJECT_STORE_ID}/1000"
    assert sorted(
        zip(*(spec[name].split(",") for name in ("inFiles", "fsize", "checksum", "prodDBlockToken")), strict=True)
    ) == [(f"zip://{one['lfn']}", str(one["size_bytes"]), f"ad:{one['adler32']}", store) for one in tars]
    listed = ",".join(f"{output}.{story.name(one)}" for one in story.ranges[1:])
    assert spec["writeToFile"] == f"inputFor_{output}:{listed}"
    assert spec["jobPars"] == f"--inputHITSFile=@inputFor_{output} --outputHITSFile={output}"
    written = world.path_of(system.storages, "user.tester", output)
    assert written.read_text() == "".join(line for name in world.FILES_OF_EVENTS for line in world.events_of(name))
    [file] = system.get("catalogue/dataset", name=spec["realDatasets"], include_files=True)["files"]
    assert (file["lfn"], file["size_bytes"]) == (output, written.stat().st_size)


def test_the_task_is_done(system: System, story: Story) -> None:
    assert system.get("task/get_details", task_id=story.task_id)["status"] == "done"
