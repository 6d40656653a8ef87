from __future__ import annotations

import httpx
import pytest

from services.task_definition.tasks.store.explanations import SQL
from shared.auth import Authority
from shared.db import Database
from shared.runtime.service import Service
from tests import rows
from tests.handlers.task_definition.conftest import client_of
from tests.handlers.task_definition.steps import define
from tests.handlers.task_definition.world import production
from tests.rows import archived_job, change, chunk, insert, job
from tests.rows_read import rows_read

DECISION = {
    "plugin": "production", "seed": 1, "world_version": 1, "outcome": "chosen",
    "summary": {"considered": 1, "passed": 1},
    "codes": [0], "found": [0.0], "wanted": [0.0], "weights": [1.0], "checks": {},
}  # fmt: skip


async def test_a_task_shows_why_it_got_its_nucleus_however_often_its_chunks_were_decided_since(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id, _ = await define(database, service, producer, production())
    async with database.read() as connection:
        for nucleus in ("BETA", "ALPHA"):
            about = {"kind": "task", "task_id": task_id, "chosen": [nucleus], "names": [nucleus]}
            await insert(connection, "brokerage_decisions", {**DECISION, **about})
        for chunk_id in range(1, 11):
            about = {"kind": "job", "task_id": task_id, "chunk_id": chunk_id, "chosen": ["Q"], "names": ["Q"]}
            await insert(connection, "brokerage_decisions", {**DECISION, **about})
        await job(connection, task_id, job_id=9, chunk_id=2, queue="Q")
    data = (await producer.get("/api/v1/explain/task", params={"task_id": task_id})).json()["data"]
    shown = [(one["kind"], one["chunk_id"], one["chosen"]) for one in data["decisions"]]
    assert shown == [
        *(("job", number, ["Q"]) for number in (10, 9, 8)),
        ("task", None, ["ALPHA"]),
        ("task", None, ["BETA"]),
    ]
    assert "1 nuclei, 1 passed" in data["text"] and "chosen: ALPHA" in data["text"]
    of_job = (await producer.get("/api/v1/explain/job", params={"job_id": 9})).json()["data"]
    assert [one["chunk_id"] for one in of_job["decisions"]] == [2]


HELD = {
    "outcome": "none", "chosen": [], "names": ["Q"], "codes": [610], "found": [21.0], "wanted": [20.0],
    "weights": [0.0],
    "summary": {"considered": 1, "passed": 0, "checks": {"user_queue": 1}, "tiers": {"capacity": 1},
                "nearest_miss": {"name": "Q", "check": "user_queue", "tier": "capacity", "temporary": True,
                                 "found": "queued 21 jobs", "wanted": "at most 20 jobs"}},
    "checks": {"610": {"name": "user_queue", "tier": "capacity", "temporary": True, "found": "queued",
                       "wanted": "at most", "unit": "jobs", "words": [], "parameters": [], "lifts": []}},
}  # fmt: skip


async def test_a_merge_chunk_that_finds_no_queue_is_told_first_however_many_other_chunks_did_since(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id, _ = await define(database, service, producer, production())
    async with database.read() as connection:
        for chunk_id, kind in ((1, "scout"), (2, "merge"), *((number, "normal") for number in range(3, 8))):
            row = {"chunk_id": chunk_id, "task_id": task_id, "kind": kind, "status": "used", "n_files": 1}
            await insert(connection, "chunks", row)
            decision = DECISION | {"kind": "job", "task_id": task_id, "chunk_id": chunk_id, "chosen": ["Q"]}
            held = HELD if kind == "merge" else {"names": ["Q"]}
            await insert(connection, "brokerage_decisions", decision | held)
        await job(connection, task_id, job_id=9, chunk_id=7, queue="Q", status="merging")
        await job(connection, task_id, job_id=10, chunk_id=7, queue="Q", status="running")
    data = (await producer.get("/api/v1/explain/task", params={"task_id": task_id})).json()["data"]
    shown = [(one["chunk_kind"], one["chunk_id"]) for one in data["decisions"]]
    assert shown == [("merge", 2), ("normal", 7), ("normal", 6), ("normal", 5), ("scout", 1)]
    assert "for merge chunk 2 " in data["text"] and "queued 21 jobs, wanted: at most 20 jobs" in data["text"]
    merging = (await producer.get("/api/v1/explain/job", params={"job_id": 9})).json()["data"]
    assert [one["chunk_id"] for one in merging["decisions"]] == [2, 7]
    assert "merge chunk 2 found no queue, see below" in merging["text"]
    running = (await producer.get("/api/v1/explain/job", params={"job_id": 10})).json()["data"]
    assert [one["chunk_id"] for one in running["decisions"]] == [7]


@pytest.mark.parametrize("path", ["explain/job", "explain/task", "task/get_status"])
async def test_an_id_that_no_task_or_job_can_have_is_called_out_of_range(
    service: Service, producer: httpx.AsyncClient, path: str
) -> None:
    name = "job_id" if path.endswith("job") else "task_id"
    reply = (await producer.get(f"/api/v1/{path}", params={name: "99999999999999999999"})).json()
    assert not reply["success"]
    assert reply["message"] == (
        f"{name} = '99999999999999999999': the id is out of range; allowed: 1 to 9223372036854775807"
    )
    assert [one["field"] for one in reply["problems"]] == [name]


async def test_a_job_that_waits_for_a_pilot_says_why_pilots_got_nothing_at_its_queue_within_the_last_hour(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id, _ = await define(database, service, producer, production())
    async with database.read() as connection:
        await job(connection, task_id, job_id=9, queue="Q", status="activated")
        told = "jobs are waiting at Q but none fits: memory 16000 MB, the pilot has 4000 MB"
        pilots = {"queue": "Q", "n_pilots": 12, "reason": told}
        await insert(connection, "pilots_without_a_job", {**pilots, "why": "memory"})
        await insert(connection, "pilots_without_a_job", {**pilots, "why": "disk", "queue": "OTHER"})
        await insert(connection, "pilots_without_a_job", {**pilots, "why": "label"})
        await connection.execute(
            "UPDATE pilots_without_a_job SET last_at = last_at - interval '2 hours' WHERE why = 'label'"
        )
    found = (await producer.get("/api/v1/explain/job", params={"job_id": 9})).json()["data"]
    (line,) = [one for one in found["waits_for"] if "pilots got nothing" in one]
    assert line.startswith("pilots got nothing there, memory: 12 times, last ") and line.endswith(told)
    assert line in found["text"]


async def test_a_job_that_runs_says_what_its_pilot_said_last(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id, _ = await define(database, service, producer, production())
    said = {"node": "node7", "job_sub_status": "stagein", "n_events": 20, "max_pss": 1000, "pilot_id": "t|PR|3"}
    async with database.read() as connection:
        for job_id, progress in ((9, said), (10, {"pilot_id": "t|PR|3"})):
            await job(connection, task_id, job_id=job_id, queue="Q", status="running")
            await insert(connection, "job_progress", {"job_id": job_id, "progress": progress})
    found = (await producer.get("/api/v1/explain/job", params={"job_id": 9})).json()["data"]
    assert found["waits_for"][-1].endswith("node node7, stagein, 20 events, at most 1000 kB of memory (PSS)")
    other = (await producer.get("/api/v1/explain/job", params={"job_id": 10})).json()["data"]
    assert other["waits_for"][-1].endswith("nothing but that it runs")


async def test_a_job_without_a_queue_says_that_it_waits_for_real_co_jumbo_jobs(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id, _ = await define(database, service, producer, production())
    async with database.read() as connection:
        await job(connection, task_id, job_id=9, queue=None, status="waiting")
        await connection.execute(
            "UPDATE task_datasets SET n_files_waiting = 1 WHERE task_id = $1 AND type = 'input'", task_id
        )
    found = (await producer.get("/api/v1/explain/job", params={"job_id": 9})).json()["data"]
    assert found["waits_for"] == [
        "waits for real co-jumbo jobs, or for jumbo jobs to process all events of its job set"
    ]
    assert "at WAITING_CO_JUMBO/" in found["text"]
    task = (await producer.get("/api/v1/explain/task", params={"task_id": task_id})).json()["data"]
    assert "1 of it waits for real co-jumbo jobs" in task["text"]


async def test_a_job_that_a_pilot_took_says_when_it_is_given_up(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id, _ = await define(database, service, producer, production())
    async with database.read() as connection:
        await job(connection, task_id, job_id=9, queue="Q", status="sent")
        until = await connection.fetchval("SELECT state_change_time + interval '30 minutes' FROM jobs WHERE job_id = 9")
    found = (await producer.get("/api/v1/explain/job", params={"job_id": 9})).json()["data"]
    assert f"it is given up after {str(until)[:19]} UTC by the rule sent: sent for 0.5 h" in found["text"]
    assert found["time_out"]["rule"] == "sent" and found["time_out"]["at"].startswith(str(until)[:10])


async def test_a_job_says_which_time_out_is_next_or_why_all_are_off(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id, _ = await define(database, service, producer, production())
    record = {"atlas_site": "S", "status": "paused", "type": "unified"}
    async with database.read() as connection:
        await rows.insert(connection, "absent_queues", {"queue": "LEFT", "data": record})
        for number, queue in ((9, "LEFT"), (10, "Q")):
            await job(connection, task_id, job_id=number, queue=queue, status="assigned")
    for number, said in (
        (9, "time-outs are off: the queue was paused before it left the grid"),
        (10, "sent elsewhere after"),
    ):
        found = (await producer.get("/api/v1/explain/job", params={"job_id": number})).json()["data"]
        assert said in found["time_out"]["text"] and said in found["text"]
    assert found["time_out"]["rule"] == "assigned"


#: ids of jobs need more than four bytes after a few years
JOB = 5_000_000_000
MISSING = "expected output missing in the pilot's list: "
DIED = [
    (9001, MISSING + "EVNT.12._000001.pool.root.1"),
    (9001, MISSING + "EVNT.12._000002.pool.root.1, log.12._000002.tgz"),
    (9001, MISSING + "a.1, b.1, c.1 and 2 more; job_output_report '{\"broken\": {' was not understood"),
    (9001, MISSING + "a.7; job_output_report '[5, 6, 7]' was not understood"),
    (1212, "job has exceeded the memory limit 2048000 kB"), (1212, "job has exceeded the memory limit 3 kB"),
    (1212, "payload was killed"), (1305, "payload was killed"),
]  # fmt: skip


async def test_failures_that_differ_only_in_names_and_numbers_are_counted_together_with_one_example(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id, _ = await define(database, service, producer, production())
    async with database.read() as connection:
        for number, (code, dialog) in enumerate([*DIED, DIED[0]]):
            failed = {"status": "failed", "error_source": "pilot", "error_code": code, "error_dialog": dialog}
            failed["queue"] = "Q2" if number == len(DIED) else "Q1"
            await (archived_job if number % 2 else job)(connection, task_id, **failed)
    data = (await producer.get("/api/v1/explain/task", params={"task_id": task_id})).json()["data"]
    found = {(one["error_code"], one["error_dialog"]): (one["n_jobs"], one["n_texts"]) for one in data["failures"]}
    assert found == {DIED[0]: (3, 2), DIED[2]: (2, 2), DIED[4]: (2, 2), DIED[6]: (1, 1), DIED[7]: (1, 1)}
    most = data["failures"][0]
    assert (most["n_queues"], most["queues"]) == (2, [{"queue": "Q1", "n_jobs": 2}, {"queue": "Q2", "n_jobs": 1}])
    assert f"3 jobs failed at Q1 (2), Q2 (1): pilot 9001, for example: {DIED[0][1]}" in data["text"]


async def test_a_job_is_told_with_those_it_follows_those_that_follow_it_and_those_made_with_it(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id, _ = await define(database, service, producer, production())
    async with database.read() as connection:
        first, with_it, second, beside, alone, third = range(JOB, JOB + 6)
        await archived_job(connection, task_id, job_id=first, chunk_id=5, status="failed", queue="Q1")
        await archived_job(connection, task_id, job_id=with_it, chunk_id=5, status="finished")
        await job(connection, task_id, job_id=second, chunk_id=6, status="failed", queue="Q2")
        for one, chunk_id in ((beside, 6), (alone, 7)):
            await job(connection, task_id, job_id=one, chunk_id=chunk_id)
        await job(connection, task_id, job_id=third, chunk_id=7, status="running")
        for old, new in ((first, second), (second, third)):
            await insert(connection, "job_retry_history", {"task_id": task_id, "old_job_id": old, "new_job_id": new})
    told = {one: (await producer.get(f"/api/v1/explain/job/{one}")).json()["data"] for one in (first, second, third)}
    chains = {one: [(row["place"], row["job_id"], row["status"]) for row in told[one]["chain"]] for one in told}
    assert chains == {
        first: [(1, second, "failed"), (2, third, "running")],
        second: [(-1, first, "failed"), (1, third, "running")],
        third: [(-2, first, "failed"), (-1, second, "failed")],
    }
    siblings = {one: [row["job_id"] for row in told[one]["siblings"]] for one in told}
    assert siblings == {first: [with_it], second: [beside], third: [alone]}
    assert f"follows job {first} (retry, failed at Q1)" in told[second]["text"]
    assert f"followed by job {third} (retry, running at " in told[second]["text"]


async def test_of_jobs_that_many_follow_no_more_are_read_than_are_told(database: Database) -> None:
    async with database.read() as connection:
        await change(
            connection,
            "INSERT INTO job_retry_history (task_id, old_job_id, new_job_id)"
            " SELECT 1, (n - 2) / 30 + 1, n FROM generate_series(2, 27931) n",
        )
        await connection.execute("ANALYZE job_retry_history")
        given = {"job_id": 1, "most_steps": 3, "at_most": 5}
        arguments = tuple(map(given.get, SQL.parameters("chain_of_job")))
        n_rows = await rows_read(connection, SQL.text("chain_of_job"), arguments)
        places = [row["place"] for row in await connection.fetch(SQL.text("chain_of_job"), *arguments)]
    assert n_rows <= 200, f"it reads {n_rows} rows"
    assert places == [1] * 5, "each of 30 is followed by 30, and these are, too"


async def test_where_a_job_runs_is_told_to_its_owner_and_to_production_alone(
    database: Database, service: Service, producer: httpx.AsyncClient, user: httpx.AsyncClient, authority: Authority
) -> None:
    task_id, _ = await define(database, service, producer, production())
    async with database.read() as connection:
        await change(connection, "UPDATE tasks SET user_name = 'bob' WHERE task_id = $1", task_id)
        await job(connection, task_id, job_id=9, queue="Q", status="running", worker="node7", user_name="bob")
        await insert(connection, "job_progress", {"job_id": 9, "progress": {"node": "node7"}})
    async with client_of(service, authority, "bob", "user") as owner:
        for who, may in ((owner, True), (producer, True), (user, False)):
            answer = await who.get("/api/v1/explain/job/9")
            assert answer.json()["data"]["job"]["status"] == "running" and ("node7" in answer.text) == may


async def test_a_task_is_said_to_wait_for_its_share_only_while_it_does(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id, _ = await define(database, service, producer, production())
    reason = "21 queued jobs are more than the cap 5"
    async with database.read() as connection:
        row = {"task_id": task_id, "outcome": "throttled", "reason": reason}
        await insert(connection, "generation_decisions", row)
        await change(
            connection,
            "UPDATE generation_decisions SET retry_at = orrery_now() + interval '1 hour' WHERE task_id = $1", task_id,
        )  # fmt: skip
        for status in ("assigning", "ready"):
            await change(
                connection,
                "UPDATE tasks SET status = $2, retry_at = orrery_now() + interval '1 hour' WHERE task_id = $1",
                task_id, status,
            )  # fmt: skip

    async def told() -> tuple[str, str | None]:
        found = (await producer.get("/api/v1/explain/task", params={"task_id": task_id})).json()["data"]
        listed = (await producer.get("/api/v1/task/list")).json()["data"]
        return found["text"], next(one["held_back"] for one in listed if one["task_id"] == task_id)

    text, listed = await told()
    assert f"{reason}\n    waits for: fewer queued jobs of share" in text and listed == reason
    async with database.read() as connection:
        used = "UPDATE task_datasets SET n_files_used = n_files WHERE task_id = $1 AND type = 'input'"
        await change(connection, used, task_id)
    text, listed = await told()
    assert "waits for: fewer queued jobs" not in text and listed is None
    assert "job generation was held back last at" in text and "and is not any more: 21 queued jobs" in text


SET_OF_JOBS = {
    "job_set_id": 1, "chunk_id": 1, "status": "open", "kind": "normal", "n_files": 1, "n_ranges": 1, "n_consumers": 1,
    "serials": {}, "queues": [],
}  # fmt: skip


async def test_a_closed_job_of_a_job_set_that_ran_is_told_in_the_words_of_its_sub_status(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id, _ = await define(database, service, producer, production())
    async with database.read() as connection:
        await archived_job(connection, task_id, job_id=9, queue="Q", status="closed")
        await insert(connection, "job_sets", SET_OF_JOBS | {"task_id": task_id})
        row = {"job_set_id": 1, "job_id": 9, "task_id": task_id, "role": "consumer", "attempt": 1}
        row["sub_status"] = "es_noevent"
        await insert(connection, "job_set_jobs", row)
    text = (await producer.get("/api/v1/explain/job", params={"job_id": 9})).json()["data"]["text"]
    assert "closed, it ran and got no event: other jobs of its job set had them all (es_noevent)" in text


async def test_a_task_tells_what_each_of_its_parts_waits_for(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id, _ = await define(database, service, producer, production())
    check = {**HELD["checks"]["610"], "lifts": ["statistics of the queue"]}
    held = {**DECISION, **HELD, "kind": "job", "task_id": task_id, "checks": {"610": check}}
    async with database.read() as connection:
        chunk_id = await chunk(connection, task_id, kind="merge", queue="Q", status="returned")
        await insert(connection, "brokerage_decisions", {**held, "chunk_id": chunk_id, "decision_id": 77})
        await connection.execute("UPDATE chunks SET retry_at = '2100-01-01 19:50 UTC'")
        await connection.execute("UPDATE tasks SET retry_at = '2100-01-01 12:00 UTC' WHERE task_id = $1", task_id)
        for one in (
            {"kind": "queue", "work": "merge", "part": "Q", "chunk_id": chunk_id, "decision_id": 77},
            {"kind": "share", "causes": {"lifts": [], "queues": [], "caps": [["SCORE", 0.0]]}},
        ):
            at = {"since": "2099-12-31 19:20 UTC", "retry_at": "2100-01-01 19:50 UTC"}
            await connection.execute(
                "INSERT INTO waits (task_id, kind, work, part, chunk_id, decision_id, causes, since, retry_at)"
                " SELECT $1, r.kind, coalesce(r.work, 'task'), coalesce(r.part, ''), r.chunk_id, r.decision_id,"
                " coalesce(r.causes, '{}'), r.since, r.retry_at FROM jsonb_populate_record(NULL::waits, $2) r",
                task_id,
                {**at, **one},
            )
    data = (await producer.get("/api/v1/explain/task", params={"task_id": task_id})).json()["data"]
    assert [(one["work"], one["part"]) for one in data["waits"]] == [("merge", "Q"), ("task", "")]
    assert (
        "  waits: merges at Q since 19:20: room at Q (21 of the user queued, at most 20) or 19:50 UTC" in data["text"]
    )
    assert "  waits: its next input since 19:20: room in its share or 19:50 UTC" in data["text"]
