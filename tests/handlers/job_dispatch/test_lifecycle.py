"""From generated to activated, and from holding to the end, on a real database."""

from __future__ import annotations

from typing import Any

import pytest

from services.job_dispatch.app import Parts
from services.job_generation.policy.outcomes import Attempts, Ended, FileOutcome, of_input
from shared.events import Event, JobsGenerated, OutputsRegistered, TaskCommanded, TransfersCompleted
from tests.handlers.job_dispatch.grid_of_jobs import Rows
from tests.handlers.job_dispatch.slices import work_off


async def handle(rows: Rows, handler: Any, event: Event) -> None:
    async with rows.database.begin(reason="test", cause_event_id=event.event_id) as work:
        await handler(event, work)


def generated(job_ids: list[int]) -> JobsGenerated:
    return JobsGenerated(job_ids=tuple(job_ids), task_id=1, chunk_id=1)


async def test_jobs_without_input_are_activated_at_once_with_their_lanes(rows: Rows, parts: Parts) -> None:
    ids = await rows.jobs(3, status="defined", priority=77)
    await handle(rows, parts.handlers.on_jobs_generated, generated(ids))
    assert await rows.statuses(ids) == ["activated"] * 3
    (event,) = await rows.events("jobs.activated.v1")
    assert [one["job_id"] for one in event["lane_jobs"]] == ids
    assert event["lane_jobs"][0] == {
        "job_id": ids[0],
        "queue": "Q1",
        "gshare": "MC",
        "shape_id": rows.shapes["small"],
        "priority": 77,
        "order_key_id": 0,
    }
    assert event["moves"][0]["from_status"] == "defined" and event["moves"][0]["n_jobs"] == 3


async def test_input_at_the_queue_is_not_moved_and_missing_input_is(rows: Rows, parts: Parts) -> None:
    here, partly, away, unknown = await rows.jobs(4, status="defined")
    await rows.input_file(here, lfn="f1", dataset="mc.here")
    await rows.input_file(partly, lfn="f2", dataset="mc.partly")
    await rows.input_file(away, lfn="f3", dataset="mc.away", size_bytes=500)
    await rows.input_file(away, lfn="f4", dataset="mc.away", size_bytes=700)
    await rows.input_file(unknown, lfn="f5", dataset="mc.unknown")
    await rows.replica("mc.here", "SITE-A_DATADISK")
    await rows.replica("mc.partly", "SITE-A_DATADISK", complete=False, lfns=["f2"])
    await rows.replica("mc.away", "SITE-B_DATADISK")
    await rows.replica("mc.away", "SITE-A_DATADISK", complete=False, lfns=["f4"])
    await handle(rows, parts.handlers.on_jobs_generated, generated([here, partly, away, unknown]))
    assert await rows.statuses([here, partly, away, unknown]) == ["activated", "activated", "assigned", "assigned"]
    async with rows.database.read() as connection:
        transfers = await connection.fetch("SELECT * FROM transfers ORDER BY job_id")
    assert [(one["job_id"], one["n_files"], one["n_bytes"], one["source_storage"]) for one in transfers] == [
        (away, 2, 1200, "SITE-B_DATADISK"),
        (unknown, 1, 1000, None),
    ]
    assert {one["destination_storage"] for one in transfers} == {"SITE-A_DATADISK"}
    assert {one["status"] for one in transfers} == {"requested"} and transfers[0]["direction"] == "input"
    (requested,) = await rows.events("transfers.requested.v1")
    assert requested["transfer_ids"] == [one["transfer_id"] for one in transfers]
    (assigned,) = await rows.events("jobs.assigned.v1")
    assert assigned["job_ids"] == [away, unknown]


async def test_a_secondary_file_that_jobs_share_is_moved_for_each_of_them(rows: Rows, parts: Parts) -> None:
    first, second = await rows.jobs(2, status="defined")
    await rows.input_file(first, lfn="m1", dataset="mc.here")
    shared = await rows.input_file(first, lfn="pileup", dataset="mc.shared", size_bytes=700)
    async with rows.database.pool.acquire() as connection:
        await connection.execute(
            "INSERT INTO job_files (job_id, file_id, dataset_id, task_id, type)"
            " SELECT $2, file_id, dataset_id, task_id, type FROM job_files WHERE file_id = $1",
            shared,
            second,
        )
    await rows.replica("mc.here", "SITE-A_DATADISK")
    await rows.replica("mc.shared", "SITE-B_DATADISK")
    await handle(rows, parts.handlers.on_jobs_generated, generated([first, second]))
    assert await rows.statuses([first, second]) == ["assigned", "assigned"]
    async with rows.database.read() as connection:
        transfers = await connection.fetch("SELECT job_id, n_files, n_bytes FROM transfers ORDER BY job_id")
    assert [tuple(one) for one in transfers] == [(first, 1, 700), (second, 1, 700)]


async def test_input_of_an_analysis_task_is_moved_as_analysis_whatever_its_label(rows: Rows, parts: Parts) -> None:
    (job_id,) = await rows.jobs(1, status="defined")
    await rows.input_file(job_id, lfn="f", dataset="mc.away")
    async with rows.database.pool.acquire() as connection:
        await connection.execute("UPDATE tasks SET task_type = 'anal', prod_source_label = 'test'")
        await connection.execute("UPDATE jobs SET prod_source_label = 'test'")
    await handle(rows, parts.handlers.on_jobs_generated, generated([job_id]))
    async with rows.database.read() as connection:
        assert await connection.fetchval("SELECT activity FROM transfers") == "Analysis Input"


@pytest.mark.parametrize(
    ("about", "activity"),
    [
        ({"task_type": "prod", "current_priority": 1000}, "Express"),
        ({"task_type": "prod", "current_priority": 999}, "Production Input"),
        ({"task_type": "prod", "current_priority": 100, "processing_type": "urgent"}, "Express"),
        ({"task_type": "anal", "current_priority": 1000}, "Analysis Input"),
        ({"task_type": "anal", "current_priority": 1000, "processing_type": "urgent"}, "Express"),
    ],
)
async def test_input_of_urgent_work_is_moved_by_the_express_activity(
    rows: Rows, parts: Parts, about: dict[str, Any], activity: str
) -> None:
    (job_id,) = await rows.jobs(1, status="defined")
    await rows.input_file(job_id, lfn="f", dataset="mc.away")
    async with rows.database.pool.acquire() as connection:
        for column, value in about.items():
            await connection.execute(f"UPDATE tasks SET {column} = $1", value)
    await handle(rows, parts.handlers.on_jobs_generated, generated([job_id]))
    async with rows.database.read() as connection:
        assert await connection.fetchval("SELECT activity FROM transfers") == activity


@pytest.mark.parametrize(
    ("down", "destination"),
    [((), "SITE-A_DATADISK"), (("SITE-A_DATADISK",), "SITE-A_SPARE"),
     (("SITE-A_DATADISK", "SITE-A_SPARE"), "SITE-A_DATADISK")],
)  # fmt: skip
async def test_input_goes_to_the_first_storage_of_the_queue_that_can_be_read(
    rows: Rows, parts: Parts, down: tuple[str, ...], destination: str
) -> None:
    storages = ("SITE-A_DATADISK", "SITE-A_SPARE")
    async with rows.database.pool.acquire() as connection:
        await connection.execute("INSERT INTO storages (storage, site, type) VALUES ('SITE-A_SPARE', 'SITE-A', 'DISK')")
        for name in storages:
            record = {"site_name": "SITE-A", "type": "DISK", "blacklisted_read": "Y" if name in down else "N"}
            await connection.execute("UPDATE storages SET data = $2 WHERE storage = $1", name, record)
        await connection.execute(
            "UPDATE queues SET data = jsonb_set(data, '{astorages,read_lan}', $1) WHERE queue = 'Q1'", list(storages)
        )
        await connection.execute("UPDATE versions SET version = version + 1 WHERE name = 'grid'")
    (job_id,) = await rows.jobs(1, status="defined")
    await rows.input_file(job_id, lfn="f", dataset="mc.away")
    await handle(rows, parts.handlers.on_jobs_generated, generated([job_id]))
    async with rows.database.read() as connection:
        assert await connection.fetchval("SELECT destination_storage FROM transfers") == destination


async def test_a_repeated_event_changes_nothing(rows: Rows, parts: Parts) -> None:
    (job_id,) = await rows.jobs(1, status="defined")
    await rows.input_file(job_id, lfn="f", dataset="mc.away")
    for _ in range(3):
        await handle(rows, parts.handlers.on_jobs_generated, generated([job_id]))
    async with rows.database.read() as connection:
        assert await connection.fetchval("SELECT count(*) FROM transfers") == 1
    assert len(await rows.events("jobs.assigned.v1")) == 1


async def test_jobs_are_activated_when_the_last_of_their_transfers_is_done(rows: Rows, parts: Parts) -> None:
    (job_id,) = await rows.jobs(1, status="defined")
    await rows.input_file(job_id, lfn="f1", dataset="mc.one")
    await rows.input_file(job_id, lfn="f2", dataset="mc.two")
    await handle(rows, parts.handlers.on_jobs_generated, generated([job_id]))
    async with rows.database.pool.acquire() as connection:
        first, second = [
            row["transfer_id"] for row in await connection.fetch("SELECT transfer_id FROM transfers ORDER BY 1")
        ]
        await connection.execute("UPDATE transfers SET status = 'done' WHERE transfer_id = $1", first)
    done = TransfersCompleted(transfer_ids=(first,), job_ids=(job_id,))
    await handle(rows, parts.handlers.on_transfers_completed, done)
    assert await rows.statuses([job_id]) == ["assigned"]
    async with rows.database.pool.acquire() as connection:
        await connection.execute("UPDATE transfers SET status = 'done'")
    done = TransfersCompleted(transfer_ids=(second,), job_ids=(job_id,))
    await handle(rows, parts.handlers.on_transfers_completed, done)
    assert await rows.statuses([job_id]) == ["activated"]


async def test_jobs_whose_data_cannot_be_moved_fail_without_blaming_the_payload(rows: Rows, parts: Parts) -> None:
    (assigned,) = await rows.jobs(1, status="assigned")
    (leaving,) = await rows.jobs(1, status="transferring")
    event = TransfersCompleted(transfer_ids=(1, 2), job_ids=(), failed_job_ids=(assigned, leaving))
    await handle(rows, parts.handlers.on_transfers_completed, event)
    assert await rows.statuses([assigned, leaving]) == ["failed", "failed"]
    assert (await rows.row(assigned))["error_source"] == "dispatch"


@pytest.mark.parametrize(
    ("field", "source", "code", "tries", "dialog"),
    [
        # a queue may get a storage: the attempts are forgiven; a closed dataset does not open by itself: they count
        ("without_storage_job_ids", "dispatch", 103, 53, "queue Q1 has no storage for output"),
        ("refused_job_ids", "catalogue", 104, 3, "a dataset of its output is closed, or not there any more: its task "
         "needs another output dataset"),
    ],
)  # fmt: skip
async def test_jobs_whose_outputs_nobody_can_keep_fail_with_that_reason(
    rows: Rows, parts: Parts, field: str, source: str, code: int, tries: int, dialog: str
) -> None:
    stored, lost = await rows.jobs(2, status="holding")
    event = OutputsRegistered.model_validate({"job_ids": (stored,), field: (lost,)})
    for _ in range(2):  # the second time is a repeated delivery
        await handle(rows, parts.handlers.on_outputs_registered, event)
    assert await rows.statuses([stored, lost]) == ["finished", "failed"]
    row = await rows.row(lost)
    assert (row["error_source"], row["error_code"], row["error_dialog"]) == (source, code, dialog)
    file, n_tries = FileOutcome("ready", Attempts(0, 3)), 0
    while file.status == "ready":
        file, n_tries = of_input(Ended("failed", row["error_source"]), file.attempts), n_tries + 1
    assert n_tries == tries


async def test_jobs_that_wrote_names_of_others_fail_as_their_payload_made_them_and_their_log_is_asked_for(
    rows: Rows, parts: Parts
) -> None:
    first, late, alone = await rows.jobs(3, status="holding")
    for lfn, job_id in (("a1.root", first), (r"regex|a.*\.root|000002", late), ("log.2", late)):
        await rows.output(job_id, lfn, task_id=1)
    async with rows.database.pool.acquire() as connection:
        report = {"job_status": "finished", "outputs": {"a1.root": {}, "a2.root": {}, "log.2": {}}}
        await connection.execute("INSERT INTO job_reports VALUES ($1, 1, 'finished', $2)", late, report)
    event = OutputsRegistered(job_ids=(alone,), names_taken_job_ids=(late,))
    for _ in range(2):  # the second time is a repeated delivery
        await handle(rows, parts.handlers.on_outputs_registered, event)
    assert await rows.statuses([first, late, alone]) == ["holding", "failed", "finished"]
    row = await rows.row(late)
    assert (row["error_source"], row["error_code"]) == ("payload", 9003)
    told = "names that other files of the task or its datasets have: a1.root; allowed: names that no other job writes"
    assert row["error_dialog"] == told
    assert [one["job_ids"] for one in await rows.events("outputs.produced.v1")] == [[late]]


async def test_new_jobs_of_a_paused_task_wait_and_those_of_a_killed_one_are_cancelled(rows: Rows, parts: Parts) -> None:
    await rows.task(2, status="paused")
    await rows.task(3, status="aborting")
    (paused,) = await rows.jobs(1, status="defined", task_id=2)
    (killed,) = await rows.jobs(1, status="defined", task_id=3)
    await handle(rows, parts.handlers.on_jobs_generated, generated([paused, killed]))
    assert await rows.statuses([paused, killed]) == ["throttled", "cancelled"]


async def test_registered_outputs_end_a_job_move_its_files_or_wait_for_the_merge(rows: Rows, parts: Parts) -> None:
    await rows.task(2, nucleus="NUCLEUS")
    await rows.task(3, nucleus="NUCLEUS", mergeOutput=True)
    (analysis,) = await rows.jobs(1, status="holding", task_id=1)
    (leaving,) = await rows.jobs(1, status="holding", task_id=2)
    (there,) = await rows.jobs(1, status="holding", task_id=2, queue="QN")
    (unmerged,) = await rows.jobs(1, status="holding", task_id=3)
    (merge,) = await rows.jobs(1, status="holding", task_id=3, job_type="merge")
    ids = [analysis, leaving, there, unmerged, merge]
    async with rows.database.pool.acquire() as connection:
        report = {"job_status": "finished", "outputs": {"a": {"fsize": 40}, "b": {"fsize": 2}}}
        for one in ids:
            await connection.execute("INSERT INTO job_reports VALUES ($1, 1, 'finished', $2)", one, report)
    for one in ids:
        for lfn in ("a", "b"):
            await rows.output(one, lfn, task_id=(await rows.row(one))["task_id"])
    for _ in range(2):  # the second time is a repeated delivery
        await handle(rows, parts.handlers.on_outputs_registered, OutputsRegistered(job_ids=tuple(ids)))
    assert await rows.statuses(ids) == ["finished", "transferring", "finished", "merging", "transferring"]
    async with rows.database.read() as connection:
        transfers = await connection.fetch("SELECT * FROM transfers ORDER BY job_id")
    assert [(one["job_id"], one["n_files"], one["n_bytes"]) for one in transfers] == [(leaving, 2, 42), (merge, 2, 42)]
    assert {(one["source_storage"], one["destination_storage"], one["direction"]) for one in transfers} == {
        ("SITE-A_DATADISK", "NUCLEUS_DATADISK", "output")
    }
    async with rows.database.pool.acquire() as connection:
        await connection.execute("UPDATE transfers SET status = 'done'")
    arrived = TransfersCompleted(transfer_ids=(1, 2), job_ids=(leaving, merge))
    await handle(rows, parts.handlers.on_transfers_completed, arrived)
    assert await rows.statuses([leaving, merge]) == ["finished", "finished"]
    finished = await rows.events("jobs.finished.v1")
    assert sorted(one for event in finished for one in event["job_ids"]) == sorted([analysis, there, leaving, merge])
    assert len(await rows.events("jobs.merging.v1")) == 1


async def test_outputs_of_a_job_go_each_to_where_its_dataset_is_kept(rows: Rows, parts: Parts) -> None:
    await rows.task(2, nucleus="NUCLEUS")
    (job_id,) = await rows.jobs(1, status="holding", task_id=2)
    places = {"a": ("dst:SITE-B_DATADISK", None), "b": (None, "SITE-B"), "c": (None, None), "d": ("ddd:", None)}
    async with rows.database.pool.acquire() as connection:
        report = {"job_status": "finished", "outputs": {lfn: {"fsize": 10} for lfn in places}}
        await connection.execute("INSERT INTO job_reports VALUES ($1, 1, 'finished', $2)", job_id, report)
        dataset_of = {}
        for lfn, (token, destination) in places.items():
            file_id = await rows.output(job_id, lfn, task_id=2)
            dataset_of[lfn] = await connection.fetchval(
                "UPDATE task_datasets d SET storage_token = $2, destination = $3 FROM task_files f"
                " WHERE f.file_id = $1 AND d.dataset_id = f.dataset_id RETURNING d.dataset_id",
                file_id,
                token,
                destination,
            )
    await handle(rows, parts.handlers.on_outputs_registered, OutputsRegistered(job_ids=(job_id,)))
    assert await rows.statuses([job_id]) == ["transferring"]
    async with rows.database.read() as connection:
        transfers = await connection.fetch("SELECT * FROM transfers ORDER BY transfer_id")
    assert [(one["destination_storage"], one["n_files"], one["dataset_ids"]) for one in transfers] == [
        ("SITE-B_DATADISK", 2, [dataset_of["a"], dataset_of["b"]]),
        ("NUCLEUS_DATADISK", 1, [dataset_of["c"]]),
    ]


STATES = ("defined", "assigned", "activated", "throttled", "sent", "running", "holding", "transferring", "merging")


STATE_OF_TASK = {
    "kill": "aborting", "finish": "finishing", "pause": "paused", "give_back": "paused", "reassign": "reassigning",
}  # fmt: skip


@pytest.mark.parametrize(
    ("command", "soft", "after"),
    [
        ("kill", False, ["cancelled"] * 9),
        ("finish", True, ["closed"] * 4 + ["sent", "running", "holding", "transferring", "merging"]),
        ("finish", False, ["closed"] * 4 + ["cancelled"] * 2 + ["holding", "transferring", "cancelled"]),
        ("pause", False, ["defined", "assigned", "throttled", "throttled", *STATES[4:]]),
        ("give_back", False, ["closed", "closed", *STATES[2:]]),
        ("resume", False, ["defined", "assigned", "activated", "activated", *STATES[4:]]),
        ("reassign", True, ["closed"] * 4 + [*STATES[4:]]),
        ("retry", False, list(STATES)),
    ],
)
async def test_commands_take_the_jobs_they_mean(
    rows: Rows, parts: Parts, command: str, soft: bool, after: list[str]
) -> None:
    ids = [(await rows.jobs(1, status=status))[0] for status in STATES]
    (other,) = await rows.jobs(1, task_id=99)
    await rows.task_is(STATE_OF_TASK.get(command, "running"))
    event = TaskCommanded(task_id=1, command=command, status="running", soft=soft)
    for _ in range(2):
        await handle(rows, parts.handlers.on_task_commanded, event)
    assert await rows.statuses(ids) == after
    assert await rows.statuses([other]) == ["activated"]
    moved = [
        move
        for key in ("failed", "throttled", "activated")
        for one in await rows.events(f"jobs.{key}.v1")
        for move in one["moves"]
    ]
    changed = [(old, new) for old, new in zip(STATES, after, strict=True) if old != new]
    assert sorted((move["from_status"], move["to_status"]) for move in moved) == sorted(changed)


@pytest.mark.parametrize("command", ["kill", "finish", "pause", "give_back", "reassign"])
async def test_a_command_that_comes_after_the_task_went_on_leaves_its_new_jobs_alone(
    rows: Rows, parts: Parts, command: str
) -> None:
    ids = [(await rows.jobs(1, status=status))[0] for status in STATES]
    for now in ("ready", "running", "scouting"):
        await rows.task_is(now)
        await handle(rows, parts.handlers.on_task_commanded, TaskCommanded(task_id=1, command=command, status=now))
    assert await rows.statuses(ids) == list(STATES)


async def test_a_resume_that_comes_after_another_pause_releases_nothing(rows: Rows, parts: Parts) -> None:
    ids = await rows.jobs(2, status="throttled")
    await rows.task_is("paused")
    await handle(rows, parts.handlers.on_task_commanded, TaskCommanded(task_id=1, command="resume", status="running"))
    assert await rows.statuses(ids) == ["throttled", "throttled"]


async def test_a_large_task_is_killed_in_slices_with_exact_moves(rows: Rows, parts: Parts) -> None:
    ids = await rows.jobs(4500, specs=False)
    await rows.task_is("aborting")
    await handle(rows, parts.handlers.on_task_commanded, TaskCommanded(task_id=1, command="kill", status="aborting"))
    await work_off(rows, parts)
    events = await rows.events("jobs.failed.v1")
    assert sorted(one for event in events for one in event["job_ids"]) == ids
    assert max(len(event["job_ids"]) for event in events) <= 500
    assert sum(move["n_jobs"] for event in events for move in event["moves"]) == 4500


async def test_a_soft_finish_spares_merge_jobs(rows: Rows, parts: Parts) -> None:
    (normal,) = await rows.jobs(1)
    (merge,) = await rows.jobs(1, job_type="merge")
    await rows.task_is("finishing")
    event = TaskCommanded(task_id=1, command="finish", status="finishing", soft=True)
    await handle(rows, parts.handlers.on_task_commanded, event)
    assert await rows.statuses([normal, merge]) == ["closed", "activated"]
