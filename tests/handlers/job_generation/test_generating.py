"""From a ready task to jobs."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from shared.events import ChunkBrokered, ChunkOffered, JobsGenerated, TaskPrepared, TaskReady, TaskReleased
from shared.waits.causes import Causes
from shared.waits.index import Waiting
from shared.waits.wide import GRID, PARAMETER, Wide
from tests.handlers.events import deliver
from tests.handlers.grids import load_grid, small_grid
from tests.handlers.job_generation.story import Story, chunks_in, generated_in


async def test_a_ready_task_offers_a_chunk_with_its_files(story: Story) -> None:
    task_id = await story.task(n_files=4)
    [chunk_id] = await story.ready(task_id)
    [chunk] = await story.fetch("SELECT * FROM chunks WHERE chunk_id = $1", chunk_id)
    assert (chunk["kind"], chunk["status"], chunk["n_files"], chunk["n_events"]) == ("normal", "offered", 4, 400)
    assert chunk["input_bytes"] == 4_000_000
    assert await story.files(task_id) == ["picked"] * 4
    held = {"dataset_id": chunk["dataset_id"], "n_files": 4, "n_bytes": 4_000_000, "n_events": 400}
    assert chunk["inputs"] == [held]


async def test_a_chunk_keeps_what_it_held_when_it_is_used_and_a_scout_chunk_does_too(story: Story) -> None:
    task_id = await story.task(n_files=20, opened=10, rule={"skipScout": False})
    [chunk_id] = await story.ready(task_id)
    await story.broker(task_id, chunk_id)
    [chunk] = await story.fetch("SELECT * FROM chunks WHERE chunk_id = $1", chunk_id)
    assert (chunk["kind"], chunk["status"]) == ("scout", "used")
    held = {"n_files": 10, "n_bytes": 10_000_000, "n_events": 1000}
    assert chunk["inputs"] == [{"dataset_id": chunk["dataset_id"], **held}]


async def test_a_brokered_chunk_becomes_one_job_for_each_file(story: Story) -> None:
    task_id = await story.task(n_files=4)
    [chunk_id] = await story.ready(task_id)
    said = await story.broker(task_id, chunk_id)
    jobs = generated_in(said)
    assert len(jobs) == 4
    assert await story.files(task_id) == ["running"] * 4
    assert await story.files(task_id, "output") == ["running"] * 4
    assert await story.status(task_id) == "running"
    [generated] = [event for event in said if isinstance(event, JobsGenerated)]
    [move] = generated.moves
    assert (move.from_status, move.to_status, move.n_jobs, move.n_cores) == (None, "defined", 4, 4)


async def test_statistics_below_nothing_count_as_nothing_queued(story: Story) -> None:
    """Moves are folded in any order: a job may have left a state before it came into it."""
    task_id = await story.task(n_files=4)
    async with story.database.begin(reason="a late move") as work:
        await work.connection.execute(
            "INSERT INTO queue_statistics (queue, resource_type, gshare, user_name, vo, status, n_jobs, n_cores)"
            " VALUES ('Q_ALPHA', 'SCORE', 'Test', 'alice', 'demo', 'defined', -1, -1)"
        )
    assert len(await story.jobs_of(task_id)) == 4


async def test_the_text_for_the_pilot_has_names_command_line_and_requirements(story: Story) -> None:
    task_id = await story.task(n_files=1, base_ram_count=500)
    [job_id] = await story.jobs_of(task_id)
    spec = await story.value("SELECT spec FROM job_specs WHERE job_id = $1", job_id)
    assert spec["PandaID"] == job_id and spec["taskID"] == task_id and spec["attemptNr"] == 1
    assert spec["jobPars"] == f"--in=mc.input._00000.root --max=100 --skip=0 --out=HITS.{task_id}._000001.root"
    assert spec["outFiles"] == f"HITS.{task_id}._000001.root,log.{task_id}._000001.root"
    assert spec["logFile"] == f"log.{task_id}._000001.root" and len(spec["logGUID"]) == 36
    assert spec["scopeOut"] == "mc" and spec["scopeLog"] == "mc"
    assert spec["inFiles"] == "mc.input._00000.root" and spec["fsize"] == "1000000"
    assert spec["ddmEndPointIn"] == "ALPHA_DATADISK" and spec["ddmEndPointOut"] == "ALPHA_DATADISK,ALPHA_DATADISK"
    [shape] = await story.fetch(
        "SELECT s.* FROM requirement_shapes s JOIN jobs j USING (shape_id) WHERE j.job_id = $1", job_id
    )
    assert shape["ram_mb"] == 1400  # (500 + 1000) x 0.9, on the grid of 100 MB
    assert shape["core_count"] == 1 and shape["resource_type"] == "SCORE"
    assert shape["vo"] == await story.value("SELECT vo FROM tasks WHERE task_id = $1", task_id) != ""


async def test_the_scope_that_a_dataset_was_given_reaches_its_jobs(story: Story) -> None:
    task_id = await story.task(n_files=1)
    await story.fetch(
        "UPDATE task_datasets SET scope = CASE type WHEN 'input' THEN 'raw' WHEN 'output' THEN 'special' END"
        " WHERE task_id = $1 RETURNING 1", task_id,
    )  # fmt: skip
    [job_id] = await story.jobs_of(task_id)
    spec = await story.value("SELECT spec FROM job_specs WHERE job_id = $1", job_id)
    assert (spec["scopeIn"], spec["scopeOut"], spec["scopeLog"]) == ("raw", "special", "mc")
    written = await story.fetch("SELECT type, scope FROM task_files WHERE task_id = $1 AND type <> 'input'", task_id)
    assert {row["type"]: row["scope"] for row in written} == {"output": "special", "log": "mc"}


@pytest.mark.parametrize(("rule", "token"), [({}, "NULL"), ({"useLocalIO": True}, "local")])
async def test_the_pilot_may_read_input_directly_unless_the_task_copies_to_scratch(
    story: Story, rule: dict[str, bool], token: str
) -> None:
    task_id = await story.task(n_files=2, rule={"nFilesPerJob": 2, **rule})
    [job_id] = await story.jobs_of(task_id)
    spec = await story.value("SELECT spec FROM job_specs WHERE job_id = $1", job_id)
    assert spec["prodDBlockToken"] == f"{token},{token}"


async def test_the_pilot_is_told_the_platform_that_its_queue_publishes(story: Story) -> None:
    grid = small_grid()
    for queue in ("Q_ALPHA", "Q_BETA"):
        grid["queues"][queue]["releases"] = ["AUTO"]
    grid["software_map"] = {
        "Q_ALPHA": {"cmtconfigs": ["x86_64-centos7-gcc11-opt"]}, "Q_BETA": {"cmtconfigs": ["x86_64-el9-gcc13-opt"]},
    }  # fmt: skip
    await load_grid(story.database, grid)
    platform = "x86_64-(centos7|el9)-gcc1[13]-opt"
    told = {}
    for queue in ("Q_ALPHA", "Q_BETA", "Q_GAMMA"):
        task_id = await story.task(n_files=1, architecture=f"{platform}#x86_64")
        [job_id] = await story.jobs_of(task_id, queue)
        told[queue] = await story.value("SELECT spec ->> 'cmtConfig' FROM job_specs WHERE job_id = $1", job_id)
    assert told == {"Q_ALPHA": "x86_64-centos7-gcc11-opt", "Q_BETA": "x86_64-el9-gcc13-opt", "Q_GAMMA": platform}


async def test_the_text_for_the_pilot_names_the_list_file_and_computes(story: Story) -> None:
    line = "--in=@${IN/F} --n=${SN/M[(#-1)*100]} --out=${OUTPUT0}"
    task_id = await story.task(n_files=2, command_line=line)
    await story.jobs_of(task_id)
    specs = await story.fetch("SELECT spec FROM job_specs WHERE task_id = $1 ORDER BY job_id", task_id)
    said = [row["spec"]["jobPars"].partition(" --out")[0] for row in specs]
    assert said == [f"--in=@tmpin_mc.input.{task_id} --n={n}" for n in (0, 100)]


async def test_the_same_brokered_chunk_twice_makes_jobs_once(story: Story) -> None:
    task_id = await story.task(n_files=3)
    [chunk_id] = await story.ready(task_id)
    await story.broker(task_id, chunk_id)
    assert generated_in(await story.broker(task_id, chunk_id)) == []
    assert await story.value("SELECT count(*) FROM jobs WHERE task_id = $1", task_id) == 3


async def test_task_ready_twice_picks_each_file_once(story: Story) -> None:
    task_id = await story.task(n_files=3)
    assert len(await story.ready(task_id)) == 1
    assert await story.ready(task_id) == []


async def test_a_chunk_withdrawn_while_it_was_brokered_makes_no_jobs(story: Story) -> None:
    task_id = await story.task(n_files=3)
    [chunk_id] = await story.ready(task_id)
    async with story.database.begin(reason="killed") as work:
        await work.connection.execute("UPDATE tasks SET status = 'aborting' WHERE task_id = $1", task_id)
    said = await story.broker(task_id, chunk_id)
    assert generated_in(said) == []
    assert await story.files(task_id) == ["ready"] * 3
    assert await story.value("SELECT status FROM chunks WHERE chunk_id = $1", chunk_id) == "returned"
    [progress] = [event for event in said if event.routing_key() == "task.progressed.v1"]
    assert progress.live_jobs == 0 and progress.status == "aborting"  # type: ignore[attr-defined]


async def test_files_beyond_a_queues_cap_go_back_and_are_offered_again(story: Story) -> None:
    task_id = await story.task(n_files=5)
    [chunk_id] = await story.ready(task_id)
    said = await story.broker(task_id, chunk_id, max_jobs=2)
    assert len(generated_in(said)) == 2
    assert len(chunks_in(said)) == 1
    assert await story.files(task_id) == ["running"] * 2 + ["picked"] * 3


async def test_a_queue_that_vanished_takes_nothing_and_the_task_waits_with_the_reason(story: Story) -> None:
    task_id = await story.task(n_files=2)
    [chunk_id] = await story.ready(task_id)
    assert generated_in(await story.broker(task_id, chunk_id, "GONE")) == []
    [task] = await story.fetch(
        "SELECT status, old_status, error_dialog, retry_at FROM tasks WHERE task_id = $1", task_id
    )
    assert (task["status"], task["old_status"]) == ("pending", "ready")
    assert task["retry_at"] is not None and "none of the ranked queues exists" in task["error_dialog"]
    assert await story.files(task_id) == ["ready"] * 2


async def test_a_task_whose_jobs_fit_none_of_the_ranked_queues_waits_for_another_grid_or_a_parameter(
    story: Story,
) -> None:
    task_id = await story.task(n_files=2)
    [chunk_id] = await story.ready(task_id)
    assert generated_in(await story.broker(task_id, chunk_id, "GONE")) == []
    [held] = await story.fetch("SELECT * FROM waits WHERE task_id = $1", task_id)
    [task] = await story.fetch("SELECT retry_at FROM tasks WHERE task_id = $1", task_id)
    assert (held["kind"], held["chunk_id"], held["retry_at"]) == ("queue", chunk_id, task["retry_at"])
    causes = Causes.of(held["causes"])
    assert "jobbroker.NQUEUELIMITSITE" in causes.parameters
    one = Waiting.of({**held, **_OF_TASK}, causes)
    grid, config = held["world_version"], held["config_version"]
    assert grid > 0
    for known, changed in ((Wide(grid, config, _changed), None), (Wide(grid + 1, config, _changed), GRID),
                           (Wide(grid, config + 1, _changed), PARAMETER)):  # fmt: skip
        assert known.cause(one) == changed


_OF_TASK = {"gshare": "", "priority": 1, "user": "", "working_group": "", "resource_type": "", "vo": ""}


def _changed(names: Iterable[str], version: int) -> bool:
    return True


async def test_an_unplaceable_chunk_sets_the_task_pending_and_returns_its_files(story: Story) -> None:
    task_id = await story.task(n_files=2)
    [chunk_id] = await story.ready(task_id)
    await story.unplaceable(task_id, chunk_id)
    [task] = await story.fetch("SELECT status, old_status, error_dialog FROM tasks WHERE task_id = $1", task_id)
    assert task == {"status": "pending", "old_status": "ready", "error_dialog": "no queue is online"}
    assert await story.files(task_id) == ["ready"] * 2
    [decision] = await story.fetch("SELECT outcome, reason FROM generation_decisions WHERE task_id = $1", task_id)
    assert decision == {"outcome": "unplaceable", "reason": "no queue is online"}


async def test_a_task_with_live_jobs_stays_running_when_a_chunk_is_unplaceable(story: Story) -> None:
    task_id = await story.task(n_files=3)
    [chunk_id] = await story.ready(task_id)
    [second] = chunks_in(await story.broker(task_id, chunk_id, max_jobs=1))
    await story.unplaceable(task_id, second)
    assert await story.status(task_id) == "running"
    assert await story.value("SELECT retry_at FROM tasks WHERE task_id = $1", task_id) is not None
    [job_id] = (await story.fetch("SELECT job_id FROM jobs WHERE task_id = $1", task_id))[0].values()
    assert chunks_in(await story.end([job_id], "finished")) == []  # its time has not come


async def test_random_seeds_count_up_and_one_of_a_failed_job_is_used_again_first(story: Story) -> None:
    task_id = await story.task(n_files=3, seeds=True, command_line="${IN} seed=${RNDMSEED}")
    jobs = await story.jobs_of(task_id)

    async def seeds() -> list[str]:
        found = await story.fetch("SELECT spec FROM job_specs WHERE task_id = $1 ORDER BY job_id", task_id)
        return [row["spec"]["jobPars"].rpartition("=")[2] for row in found]

    assert await seeds() == ["501", "502", "503"]
    [chunk_id] = chunks_in(await story.end([jobs[1]], "failed", source="payload"))
    await story.broker(task_id, chunk_id)
    assert await seeds() == ["501", "502", "503", "502"]
    assert await story.files(task_id, "random_seed") == ["running"] * 3


async def test_serial_numbers_are_never_given_twice(story: Story) -> None:
    task_id = await story.task(n_files=2)
    jobs = await story.jobs_of(task_id)
    [chunk_id] = chunks_in(await story.end(jobs, "failed", source="payload"))
    await story.broker(task_id, chunk_id)
    names = await story.fetch(
        "SELECT lfn FROM task_files WHERE task_id = $1 AND type = 'output' ORDER BY file_id", task_id
    )
    assert [row["lfn"][-11:-5] for row in names] == ["000001", "000002", "000003", "000004"]


async def test_a_retried_file_is_linked_to_the_job_that_failed_and_to_the_first_one(story: Story) -> None:
    task_id = await story.task(n_files=1)
    [first] = await story.jobs_of(task_id)
    [chunk] = chunks_in(await story.end([first], "failed", source="payload"))
    [second] = generated_in(await story.broker(task_id, chunk))
    [chunk] = chunks_in(await story.end([second], "failed", source="payload"))
    [third] = generated_in(await story.broker(task_id, chunk))
    history = await story.fetch(
        "SELECT old_job_id, new_job_id, origin_job_id FROM job_retry_history ORDER BY new_job_id"
    )
    assert [tuple(row.values()) for row in history] == [(first, second, first), (second, third, first)]
    numbers = await story.fetch("SELECT attempt_number FROM jobs WHERE task_id = $1 ORDER BY job_id", task_id)
    assert [row["attempt_number"] for row in numbers] == [1, 2, 3]


async def test_secondary_files_follow_by_ratio_and_are_owned_by_the_job(story: Story) -> None:
    task_id = await story.task(
        n_files=2, secondary={"n_files": 5, "ratio": 2}, command_line="${IN} ${IN_MINBIAS/L}"
    )  # fmt: skip
    await story.jobs_of(task_id)
    specs = await story.fetch("SELECT spec FROM job_specs WHERE task_id = $1 ORDER BY job_id", task_id)
    assert specs[1]["spec"]["jobPars"] == "mc.input._00001.root minbias._00002.root,minbias._00003.root"
    assert await story.files(task_id) == ["running"] * 6 + ["ready"]


@pytest.mark.parametrize("attribute", ["nosplit", "repeat", "reusable"])
async def test_secondary_files_that_jobs_share_are_input_of_every_job_and_owned_by_none(
    story: Story, attribute: str
) -> None:
    task_id = await story.task(
        n_files=2,
        secondary={"n_files": 2, "ratio": 2, attribute: True},
        command_line="${IN} ${IN_MINBIAS/L} ${OUTPUT0}",
    )  # fmt: skip
    jobs = await story.jobs_of(task_id)
    assert len(jobs) == 2
    linked = await story.fetch(
        "SELECT x.job_id, f.lfn FROM job_files x JOIN task_files f USING (file_id)"
        " WHERE x.job_id = ANY($1) AND x.type = 'input' AND NOT x.is_master ORDER BY x.job_id, f.file_id", jobs,
    )  # fmt: skip
    both = ["minbias._00000.root", "minbias._00001.root"]
    assert [(row["job_id"], row["lfn"]) for row in linked] == [(job_id, lfn) for job_id in jobs for lfn in both]
    specs = await story.fetch("SELECT spec FROM job_specs WHERE task_id = $1 ORDER BY job_id", task_id)
    assert all(spec["spec"]["inFiles"].split(",")[1:] == both for spec in specs)
    await story.end(jobs[:1], "failed")
    await story.end(jobs[1:], "finished")
    shared = "SELECT f.status, f.job_id, f.attempt_nr FROM task_files f WHERE f.task_id = $1 AND f.lfn LIKE 'minbias%'"
    assert [tuple(row.values()) for row in await story.fetch(shared, task_id)] == [("ready", None, 0)] * 2


async def test_a_secondary_dataset_that_runs_out_stops_generation_and_says_so(story: Story) -> None:
    task_id = await story.task(n_files=3, secondary={"n_files": 2, "ratio": 2}, command_line="${IN} ${IN_MINBIAS/L}")
    await story.jobs_of(task_id)
    assert await story.value("SELECT count(*) FROM jobs WHERE task_id = $1", task_id) == 1
    reason = await story.value("SELECT reason FROM generation_decisions WHERE task_id = $1", task_id)
    assert "has not enough unused files" in reason


async def test_a_task_whose_command_line_cannot_be_filled_in_is_broken_with_the_reason(story: Story) -> None:
    task_id = await story.task(command_line="--in=${IN} --x=${NOWHERE}")
    [chunk_id] = await story.ready(task_id)
    await story.broker(task_id, chunk_id)
    [task] = await story.fetch("SELECT status, error_dialog FROM tasks WHERE task_id = $1", task_id)
    assert task["status"] == "tobroken" and "placeholder ${NOWHERE} has no value" in task["error_dialog"]
    assert await story.files(task_id) == ["ready"] * 4
    assert await story.value("SELECT count(*) FROM jobs") == 0


async def test_a_throttled_share_offers_nothing_until_its_time(story: Story) -> None:
    task_id = await story.task()
    async with story.database.begin(reason="test") as work:
        await work.connection.execute(
            "INSERT INTO queue_statistics VALUES ('Q_ALPHA', 'SCORE', 'MC', 'bob', 'activated', 30000, 30000)"
        )
    assert await story.ready(task_id) == []
    [decision] = await story.fetch("SELECT outcome, reason, retry_at FROM generation_decisions")
    assert decision["outcome"] == "throttled" and "30000 queued jobs" in decision["reason"]
    assert await story.value("SELECT retry_at FROM tasks WHERE task_id = $1", task_id) == decision["retry_at"]


async def test_a_task_without_anything_left_to_do_is_prepared(story: Story) -> None:
    task_id = await story.task(n_files=0)
    said = await story.hear(TaskReady(task_id=task_id))
    assert any(isinstance(event, TaskPrepared) for event in said)
    assert await story.status(task_id) == "prepared"


async def test_a_job_takes_events_of_several_ranges_of_one_file_but_not_over_its_border(story: Story) -> None:
    task_id = await story.task(n_files=0, rule={"nFilesPerJob": None, "nEventsPerJob": 200})
    async with story.database.begin(reason="test") as work:
        dataset_id = await work.connection.fetchval(
            "UPDATE task_datasets SET n_files = 8, n_files_to_be_used = 8 WHERE task_id = $1 AND type = 'input'"
            " RETURNING dataset_id", task_id,
        )  # fmt: skip
        await work.connection.execute(
            "INSERT INTO task_files (dataset_id, task_id, lfn, type, status, max_attempt, n_events, start_event,"
            " end_event, first_event, fsize) SELECT $1, $2, 'f' || f, 'input', 'ready', 3, 100, s * 100,"
            " s * 100 + 99, 1, 1000 FROM generate_series(1, 2) f, generate_series(0, 3) s ORDER BY f, s",
            dataset_id, task_id,
        )  # fmt: skip
    await story.jobs_of(task_id)
    specs = await story.fetch("SELECT spec FROM job_specs WHERE task_id = $1 ORDER BY job_id", task_id)
    said = [row["spec"]["jobPars"].partition(" --out")[0] for row in specs]
    assert said == [f"--in={name} --max=200 --skip={skip}" for name in ("f1", "f2") for skip in (0, 200)]
    whole_files = [{"dataset_id": dataset_id, "n_files": 2, "n_bytes": 2000, "n_events": 800}]
    assert await story.value("SELECT inputs FROM chunks WHERE task_id = $1", task_id) == whole_files


async def test_an_unknown_task_is_ignored(story: Story) -> None:
    event = ChunkBrokered(chunk_id=1, task_id=10**9, decision_id=1, candidates=())
    assert await deliver(story.database, story.service, event) == ()


async def look_for_shares_with_room(story: Story) -> list[tuple[tuple[int, ...], str]]:
    run = next(one.run for one in story.service.periodic if one.name == "wake")
    async with story.database.begin(reason="look") as work:
        await run(work)
        return [(event.task_ids, event.cause) for event in work.emitted]


async def test_a_throttled_share_goes_on_as_soon_as_it_has_room_the_most_important_tasks_first(story: Story) -> None:
    async with story.database.read() as connection:
        await connection.execute(
            "INSERT INTO queue_statistics (queue, resource_type, gshare, user_name, status, n_jobs, n_cores) "
            "VALUES ('Q_ALPHA', 'SCORE', 'MC', 'u', 'activated', 30000, 30000)"
        )
    tasks = [await story.task(n_files=1, current_priority=priority)
             for priority in (100, 900)]  # fmt: skip
    for task_id in tasks:
        assert not [one for one in await story.hear(TaskReady(task_id=task_id)) if isinstance(one, ChunkOffered)]
    assert await look_for_shares_with_room(story) == []
    await story.value("UPDATE queue_statistics SET n_jobs = 10 RETURNING 1")
    assert await look_for_shares_with_room(story) == [((tasks[1], tasks[0]), "room in the share")]
    assert await look_for_shares_with_room(story) == []
    released = TaskReleased(task_id=tasks[1], status="ready", reason="woken before its time by room in the share")
    assert [one for one in await story.hear(released) if isinstance(one, ChunkOffered)]
    assert await story.value("SELECT placed_at IS NOT NULL FROM waits WHERE task_id = $1", tasks[1])
