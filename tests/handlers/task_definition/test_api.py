from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from services.task_definition.data.importing.import_file import catalogue_in_steps
from shared.auth import Authority
from shared.db import Database
from shared.model import common_names
from shared.runtime.service import Service
from tests.applications import application_of
from tests.handlers.task_definition.conftest import client_of
from tests.handlers.task_definition.steps import define, put, rows_of, submit, value_of
from tests.handlers.task_definition.world import analysis, production, small_catalogue
from tests.rows import ARCHIVE, insert, job


async def get(client: httpx.AsyncClient, path: str, **query: object) -> dict:
    reply = await client.get(f"/api/v1/{path}", params=query)
    assert reply.status_code == 200, reply.text
    return reply.json()


async def test_what_clients_ask_about_a_task(
    database: Database, service: Service, producer: httpx.AsyncClient, user: httpx.AsyncClient
) -> None:
    task_id, _ = await define(database, service, producer, production())
    assert (await get(user, "task/get_status", task_id=task_id))["data"] == "assigning"
    details = (await get(producer, "task/get_details", task_id=task_id, include_parameters="True"))["data"]
    assert (details["jediTaskID"], details["task_name"]) == (task_id, "simulation")
    assert details["task_parameters"] == production()
    assert [one["type"] for one in details["datasets"]] == ["input", "output", "log"]
    assert details["files"]["total"] == 20
    assert (await get(producer, "task/get_task_parameters", task_id=task_id))["data"]["nFilesPerJob"] == 2
    inputs = await get(producer, "task/get_datasets_and_files", task_id=task_id, dataset_types="input", max_files=3)
    data = inputs["data"]
    assert [len(one["files"]) for one in data] == [3]
    missing = await get(user, "task/get_status", task_id=12345)
    assert (missing["success"], missing["data"]) == (False, 2)


async def test_of_what_a_task_makes_its_size_and_the_places_of_copies_are_told(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id, _ = await define(database, service, producer, production())
    output = (await get(producer, "task/get_details", task_id=task_id))["data"]["datasets"][1]
    async with database.read() as connection:
        await connection.execute(
            "WITH made AS (INSERT INTO catalogue.datasets (scope, name, kind, n_files, n_bytes)"
            "              VALUES ('s', $1, 'dataset', 3, 3000) ON CONFLICT (name) DO UPDATE"
            "              SET n_files = 3, n_bytes = 3000 RETURNING dataset_id)"
            " INSERT INTO catalogue.dataset_replicas (dataset_id, storage, n_files, n_bytes, complete)"
            " SELECT dataset_id, storage, n_files, n_files * 1000, n_files = 3 FROM made,"
            "        (VALUES ('BETA', 1), ('ALPHA', 3)) AS v (storage, n_files)",
            output["dataset_name"],
        )
    datasets = (await get(producer, "task/get_details", task_id=task_id))["data"]["datasets"]
    assert (datasets[1]["n_files_made"], datasets[1]["n_bytes"]) == (3, 3000)
    assert [(one["storage"], one["n_bytes"], one["complete"]) for one in datasets[1]["places"]] == [
        ("ALPHA", 3000, True), ("BETA", 1000, False)
    ]  # fmt: skip
    assert "places" not in datasets[0], "input is not made"


async def test_a_users_tasks_that_are_longest_in_their_state_are_listed_the_longest_first(
    database: Database, service: Service, user: httpx.AsyncClient, authority: Authority
) -> None:
    ids = [await submit(user, analysis(f"user.alice.{n}")) for n in range(4)]
    async with database.begin(reason="test") as work:
        await work.connection.execute("SET LOCAL session_replication_role = replica")
        for task_id, status, days in zip(
            ids, ("pending", "throttled", "running", "pending"), (1, 3, 9, 2), strict=True
        ):
            await work.connection.execute(
                "UPDATE tasks SET status = $2, state_change_time = orrery_now() - $3 * interval '1 day'"
                " WHERE task_id = $1", task_id, status, days,
            )  # fmt: skip
    asked: dict[str, Any] = {"user_name": "alice", "status": "pending,throttled"}
    found = (await get(user, "task/longest", **asked))["data"]
    assert [one["task_id"] for one in found] == [ids[1], ids[3], ids[0]] and found[0]["task_name"] == "user.alice.1"
    assert [one["task_id"] for one in (await get(user, "task/longest", **asked, limit=1))["data"]] == [ids[1]]
    assert "allowed: " in (await user.get("/api/v1/task/longest", params={**asked, "status": "running"})).text
    async with client_of(service, authority, "bob", "user") as other:
        assert (await get(other, "task/longest", **asked))["data"] == []


async def test_tasks_that_wait_for_long_are_listed_and_none_of_others(
    database: Database, service: Service, user: httpx.AsyncClient, authority: Authority
) -> None:
    """They wait since they first did, or since they are in a state that should pass."""
    ids = [await submit(user, analysis(f"user.alice.{n}")) for n in range(4)]
    async with database.begin(reason="test") as work:
        await work.connection.execute("SET LOCAL session_replication_role = replica")
        for task_id, status, hours, frozen_hours in zip(
            ids, ("pending", "throttled", "running", "pending"), (1, 3, 9, 1), (None, None, 9, 5), strict=True
        ):
            await work.connection.execute(
                "UPDATE tasks SET status = $2, state_change_time = orrery_now() - $3 * interval '1 hour',"
                " frozen_time = orrery_now() - $4 * interval '1 hour' WHERE task_id = $1",
                task_id, status, hours, frozen_hours,
            )  # fmt: skip
    found = (await get(user, "task/list", waits_longer_s=7200))["data"]
    assert [one["task_id"] for one in found] == [ids[3], ids[1]]
    async with client_of(service, authority, "bob", "user") as other:
        assert (await get(other, "task/list", waits_longer_s=7200))["data"] == []
    refused = (await user.get("/api/v1/task/list", params={"waits_longer_s": -1})).text
    assert "waits_longer_s" in refused


async def test_how_many_tasks_a_list_has_is_estimated_for_those_who_may_see_them(
    database: Database, service: Service, user: httpx.AsyncClient, authority: Authority
) -> None:
    async with database.read() as connection:
        await connection.execute(
            "INSERT INTO tasks (task_name, user_name, vo, status)"
            " SELECT 't.' || n, 'u', 'demo', 'registered' FROM generate_series(1, 3000) n"
        )
        await connection.execute("ANALYZE tasks")
    assert 2500 <= (await get(user, "task/estimate", status="registered"))["data"] <= 3500
    assert (await get(user, "task/estimate", status="done"))["data"] < 100
    assert (await get(user, "task/estimate", user_name="u"))["data"] is None, "whose tasks there are is not theirs"
    async with client_of(service, authority, "ops", "operator") as operator:
        assert 2500 <= (await get(operator, "task/estimate", user_name="u"))["data"] <= 3500


async def test_a_name_like_many_others_is_looked_for_among_the_newest_where_it_is_to_be_quick(
    database: Database, service: Service, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(common_names, "SAMPLED", 50)
    monkeypatch.setattr(common_names, "NEWEST", 100)
    async with database.read() as connection:
        await connection.execute(
            "INSERT INTO tasks (task_name, user_name, vo, status)"
            " SELECT CASE n WHEN 7 THEN 'ben.user.rare' WHEN 190 THEN 'user_ben' ELSE 'user.ben.' || n END,"
            "        'u', 'demo', 'registered' FROM generate_series(1, 200) n"
        )
        await connection.execute(
            "INSERT INTO catalogue.datasets (scope, name, kind)"
            " SELECT 'demo', CASE n WHEN 7 THEN 'ben.user.rare' ELSE 'user.ben.' || n END, 'dataset'"
            "   FROM generate_series(1, 200) n"
        )
    async with client_of(service, authority, "ops", "operator") as operator:

        async def named(name: str, limit: int = 1000, **query: str) -> tuple[int, bool]:
            found = await get(operator, "task/list", name=name, limit=limit, counts="false", **query)
            return len(found["data"]), "the newest" in found["message"]

        assert await named("user*ben*", quickly="true") == (199, False), "many are like it"
        assert await named("ben*user*", quickly="true") == (0, True), "the index would have all for it"
        assert await named("ben*user*") == await named("ben*rare", quickly="true") == (1, False)
        assert await named("_ben", quickly="true") == (1, True)
        assert await named("user.ben.1", 3, quickly="true") == (3, False)
        assert await named("ben*user*", quickly="true", user_name="u") == (1, False), "few are u's"
        for query, n_found in (({"quickly": "true"}, 0), ({}, 1)):
            answer = await get(operator, "catalogue/datasets", name="*ben*user*", **query)
            assert (len(answer["data"]), "the newest" in answer["message"]) == (n_found, bool(query))
        whole = await get(operator, "catalogue/datasets", name="demo:user.ben.1", quickly="true")
        assert [one["name"] for one in whole["data"]] == ["user.ben.1"], "a whole name is found wherever it is"
    async with client_of(service, authority, "eve", groups=["other"]) as stranger:
        for path, n_told in (("task/list", 0), ("catalogue/datasets", 1)):  # the datasets are of no VO
            answer = await get(stranger, path, name="*ben*user*", quickly="true")
            assert (len(answer["data"]), answer["message"]) == (n_told, ""), "which way is taken tells of others"


async def test_an_explanation_says_between_which_times_a_task_ends(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id, _ = await define(database, service, producer, production())
    assert (await get(producer, "explain/task", task_id=task_id))["data"]["ends"] is None
    async with database.begin(reason="test") as work:
        await work.connection.execute("SET LOCAL session_replication_role = replica")
        await work.connection.execute(
            "UPDATE tasks SET status = 'running', start_time = orrery_now() - interval '10 hours' WHERE task_id = $1",
            task_id,
        )
        await work.connection.execute("UPDATE task_datasets SET n_files_finished = 10 WHERE task_id = $1", task_id)
        await insert(work.connection, "chunks", {"task_id": task_id, "kind": "normal", "status": "used", "n_files": 4,
                                                 "n_jobs": 2})  # fmt: skip
        await work.connection.execute(
            "INSERT INTO queue_outcomes (hour, queue, gshare, task_id, n_finished)"
            " SELECT date_trunc('hour', orrery_now()) - n * interval '1 hour', 'Q', 'S', $1, 50"
            "   FROM generate_series(0, 2) n", task_id,
        )  # fmt: skip
    found = (await get(producer, "explain/task", task_id=task_id))["data"]
    assert found["ends"]["told"].startswith("10 of 20 units are left; 1 ended in an hour, lately 1")
    assert found["ends"]["earliest_at"] < found["ends"]["latest_at"] and "\n  ends between " in found["text"]
    part = (await get(producer, "explain/task", task_id=task_id, counts="false"))["data"]
    assert part["ends"] is None, "it is one more statement: pages that do not show it do not ask"


async def test_a_list_has_files_and_jobs_by_state_and_can_be_filtered(
    database: Database, service: Service, producer: httpx.AsyncClient, user: httpx.AsyncClient
) -> None:
    first, _ = await define(database, service, producer, production())
    second, _ = await define(database, service, user, analysis())
    async with database.read() as connection:
        await job(connection, first, job_id=1, status="running")
        await job(connection, first, job_id=2, status="activated")
        await job(connection, first, job_id=3, status="finished")
        await connection.execute(f"{ARCHIVE} WHERE job_id = 3")
        await connection.execute("DELETE FROM jobs WHERE job_id = 3")
    listed = (await get(user, "task/list"))["data"]
    assert [one["task_id"] for one in listed] == [second, first]
    assert listed[1]["jobs"] == {"activated": 1, "finished": 1, "running": 1}
    assert listed[1]["files"]["opened"] == 20
    without = (await get(user, "task/list", jobs="false"))["data"]
    assert "jobs" not in without[1] and without[1]["files"] == listed[1]["files"]
    for query in ({"status": "ready,running"}, {"user_name": "alice"}, {"label": "user"}, {"name": "histo"}):
        assert [one["task_id"] for one in (await get(user, "task/list", **query))["data"]] == [second]
    for query in ({"user_name": "prodteam"}, {"name": "simul*"}):
        assert [one["task_id"] for one in (await get(producer, "task/list", **query))["data"]] == [first]
        assert (await get(user, "task/list", **query))["data"] == []
    assert (await get(producer, "task/get_job_ids", task_id=first))["data"] == [1, 2, 3]
    since = await get(user, "task/get_tasks_modified_since", since="2020-01-01 00:00:00", dn="None", full="None")
    assert [one["jediTaskID"] for one in since["data"]] == [second]
    by_id = await get(user, "task/get_tasks_detailed_info_since", n_tasks=5, filters=f'{{"jediTaskID": "{first}"}}')
    [told] = by_id["data"]
    assert (told["taskName"], told["superStatus"], told["nFiles"]) == (None, "registered", 20)
    by_id = await get(producer, "task/get_tasks_detailed_info_since", n_tasks=5, filters=f'{{"jediTaskID": "{first}"}}')
    [told] = by_id["data"]
    assert (told["taskName"], told["superStatus"], told["nFiles"]) == ("simulation", "registered", 20)
    own = await get(user, "task/get_tasks_detailed_info_since", filters='{"taskName": "user.*"}')
    assert [one["jediTaskID"] for one in own["data"]] == [second]
    refused = await get(user, "task/get_tasks_detailed_info_since", filters='{"colour": "red"}')
    assert (refused["success"], refused["data"]) == (False, 5)


async def test_a_pending_task_says_why_and_until_when(
    database: Database, service: Service, producer: httpx.AsyncClient, user: httpx.AsyncClient
) -> None:
    parent = await submit(producer, production("parent"))
    child, _ = await define(database, service, producer, production("child"), parent_tid=parent)
    for path in (f"explain/task/{child}", "explain/task"):
        data = (await get(producer, path, task_id=child))["data"]
        assert f"parent task {parent} is registered" in data["text"]
        assert "will be looked at again at" in data["text"]
        assert data["history"][0]["to_status"] == "pending"
    assert (await get(user, "explain/task/999"))["success"] is False


async def test_a_waiting_job_says_between_which_places_it_stands_and_that_it_waits_for_its_share(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id, _ = await define(database, service, producer, production())
    async with database.read() as connection:
        for gshare, n_here, n_running in (("MC", 3, 100), ("Data", 10, 0)):
            await insert(connection, "shares", {"gshare": gshare, "value": 50})
            key = {"queue": "Q_ALPHA", "resource_type": "SCORE", "gshare": gshare, "user_name": "prodteam"}
            for status, n_jobs in (("activated", n_here), ("running", n_running)):
                counted = {"status": status, "n_jobs": n_jobs, "n_cores": n_jobs}
                await insert(connection, "queue_statistics", {**key, **counted})
        for job_id, priority, shape_id in ((7, 900, 1), (8, 900, 2), (9, 100, 1)):
            waits = {"status": "activated", "queue": "Q_ALPHA", "gshare": "MC", "shape_id": shape_id}
            await job(connection, task_id, job_id=job_id, current_priority=priority, **waits)
    text = (await get(producer, "explain/job", job_id=9))["data"]["text"]
    assert "position: 1 to 12 of the jobs that wait at this queue are served before it" in text
    assert "waits for its share (class share): ranked before MC now: Data (10)" in text


async def test_the_last_brokerage_decision_is_unpacked(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id, _ = await define(database, service, producer, production(nucleus="ALPHA"))
    check = {
        "name": "memory", "tier": "configuration", "temporary": False, "found": "maxrss", "wanted": "needed",
        "unit": "MB", "words": [], "parameters": [], "lifts": [],
    }  # fmt: skip
    summary = {
        "considered": 2, "passed": 1, "tiers": {"configuration": 1}, "checks": {"memory": 1},
        "nearest_miss": {"name": "Q_BETA", "check": "memory", "found": "maxrss 2000 MB", "wanted": "needed 9000 MB"},
    }  # fmt: skip
    decision = {
        "kind": "job", "task_id": task_id, "chunk_id": 5, "plugin": "any.any", "seed": 1, "world_version": 1,
        "outcome": "chosen", "chosen": ["Q_ALPHA"], "summary": summary, "names": ["Q_ALPHA", "Q_BETA"],
        "codes": [0, 7], "found": [float("nan"), 2000.0], "wanted": [float("nan"), 9000.0], "weights": [1.5, 0.0],
        "checks": {"7": check},
    }  # fmt: skip
    async with database.read() as connection:
        await insert(connection, "brokerage_decisions", decision)
        await job(connection, task_id, job_id=9, chunk_id=5, status="activated", queue="Q_ALPHA")
    data = (await get(producer, "explain/task", task_id=task_id, all="true"))["data"]
    assert "left out: 1 memory" in data["text"]
    assert "nearest miss: Q_BETA: memory: maxrss 2000 MB, needed 9000 MB" in data["text"]
    assert "Q_ALPHA: passed, weight 1.5" in data["text"]
    assert data["decisions"][0]["queues"][1]["check"] == "memory"
    explained = (await get(producer, "explain/job", job_id=9))["data"]
    assert "position: 0 to 0 of the jobs that wait at this queue" in explained["text"]
    assert "last pilot never" in explained["text"]


async def test_parameters_are_typed_versioned_and_announced(
    database: Database, service: Service, operator: httpx.AsyncClient, user: httpx.AsyncClient
) -> None:
    before = await value_of(database, "SELECT version FROM versions WHERE name = 'config'")
    body = {"component": "job_dispatch", "key": "OWN_IDS_BAND", "value": "12", "type": "int"}
    assert (await operator.post("/api/v1/config/set", json=body)).json()["data"] == {"config_version": before + 1}
    found = (await get(user, "config/get", component="job_dispatch", key="OWN_IDS_BAND"))["data"]
    assert (found["value"], found["type"], found["changed_by"]) == ("12", "int", None)
    found = (await get(operator, "config/get", component="job_dispatch", key="OWN_IDS_BAND"))["data"]
    assert (found["value"], found["type"], found["changed_by"]) == ("12", "int", "operations")
    refused = (await operator.post("/api/v1/config/set", json={**body, "value": "a dozen"})).json()
    assert (refused["success"], refused["data"]) == (False, 5)
    assert "'a dozen' is not of type int" in refused["message"]
    assert await value_of(database, "SELECT count(*) FROM outbox WHERE routing_key = 'config.changed.v1'") == 1
    guessed = {"component": "job_dispatch", "key": "OTHER", "value": {"a": [1]}}
    unknown = (await operator.post("/api/v1/config/set", json=guessed)).json()
    assert (unknown["success"], unknown["problems"][0]["field"]) == (False, "job_dispatch.OTHER")
    assert (await operator.post("/api/v1/config/set", json={**guessed, "new": True})).json()["success"]
    listed = (await get(operator, "config/list", component="job_dispatch"))["data"]
    assert [one["type"] for one in listed] == ["json", "int"]
    listed = (await get(user, "config/list", component="job_dispatch"))["data"]
    assert [one["key"] for one in listed] == ["OWN_IDS_BAND"], "nobody knows what a plugin keeps in its own"
    assert (await get(user, "config/get", component="job_dispatch", key="OTHER"))["data"] is None
    assert (await get(user, "config/get", component="job_dispatch", key="NOTHING"))["data"] is None
    gone = await operator.post("/api/v1/config/unset", json={"component": "job_dispatch", "key": "OTHER"})
    assert gone.json()["success"]
    verbs = await rows_of(database, "SELECT verb FROM audit_log ORDER BY audit_id")
    assert [one["verb"] for one in verbs] == ["config.set", "config.set", "config.unset"]


async def test_while_a_large_catalogue_is_checked_no_transaction_waits_and_others_are_answered(
    database: Database, producer: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def checked(*arguments: Any, **named: Any) -> Any:
        seen.append(database.pool.get_size() - database.pool.get_idle_size())
        steps = catalogue_in_steps(*arguments, **named)
        n_steps = 0
        while True:
            try:
                next(steps)
            except StopIteration as ended:
                seen.append(n_steps >= 65)
                return ended.value
            n_steps += 1
            yield

    monkeypatch.setattr("services.task_definition.data.importing.files.catalogue_in_steps", checked)
    reply = (await producer.post("/api/v1/catalogue/import", json=small_catalogue())).json()
    assert reply["data"]["files"] == 65
    assert seen == [0, True]


async def test_a_catalogue_is_imported_whole_or_refused_whole(
    database: Database, service: Service, producer: httpx.AsyncClient, user: httpx.AsyncClient
) -> None:
    assert (await user.post("/api/v1/catalogue/import", json=small_catalogue())).status_code == 403
    again = (await producer.post("/api/v1/catalogue/import", json=small_catalogue())).json()
    assert again["data"] == {"datasets": 5, "containers": 1, "files": 65}
    bad = small_catalogue()
    bad["datasets"] = [
        {"scope": "mc", "name": "new", "file_series": [{"lfn": "n{serial}", "count": 0, "size_bytes": 1}]},
        {"scope": "mc", "name": "other", "replicas": [{"storage": "MARS"}], "colour": "red"},
        {"scope": "mc", "name": "third", "files": [{"lfn": "a", "size_bytes": 1}], "replicas": [{"storage": "MARS"}]},
    ]
    bad["containers"] = [{"scope": "mc", "name": "box", "datasets": ["nowhere"]}]
    body = (await producer.post("/api/v1/catalogue/import", json=bad)).json()
    assert body["success"] is False
    fields = {one["field"] for one in body["problems"]}
    assert {"new.file_series.0.count", "other.colour", "third.replicas", "box.datasets"} <= fields
    assert await value_of(database, "SELECT count(*) FROM catalogue.datasets WHERE name = 'third'") == 0


async def test_a_dataset_is_shown_with_its_replicas(service: Service, user: httpx.AsyncClient) -> None:
    data = (await get(user, "catalogue/dataset", name="data:data.a", include_files="True"))["data"]
    assert (data["n_files"], data["state"], len(data["files"])) == (7, "frozen", 7)
    assert data["replicas"] == [
        {"storage": "ALPHA_DATADISK", "n_files": 7, "n_bytes": 70, "complete": True},
        {"storage": "BETA_DATADISK", "n_files": 3, "n_bytes": 30, "complete": False},
    ]
    box = (await get(user, "catalogue/dataset", name="data.all/"))["data"]
    assert [one["name"] for one in box["datasets"]] == ["data.a", "data.b"]
    listed = (await get(user, "catalogue/datasets", name="data.*"))["data"]
    assert [one["name"] for one in listed] == ["data.a", "data.all", "data.b", "data.growing"]
    assert (await get(user, "catalogue/dataset", name="nothing"))["success"] is False


async def test_jobs_of_a_task_are_described_with_text_state_and_error_the_newest_first(
    database: Database, service: Service, producer: httpx.AsyncClient, user: httpx.AsyncClient
) -> None:
    task_id, _ = await define(database, service, producer, production())
    async with database.read() as connection:
        for number, status in enumerate(("running", "failed", "closed", "finished"), start=1):
            await job(connection, task_id, job_id=number, status=status, error_dialog="no" if number == 2 else None)
        await insert(
            connection, "job_specs", {"job_id": 2, "task_id": task_id, "spec": {"PandaID": 2, "jobPars": "--x"}}
        )
        await connection.execute(f"{ARCHIVE} WHERE job_id = 3")
        await connection.execute("DELETE FROM jobs WHERE job_id = 3")
    every = (await get(producer, "task/get_job_descriptions", task_id=task_id, unsuccessful_only="False"))["data"]
    assert [(one["PandaID"], one["jobStatus"]) for one in every] == [
        (4, "finished"), (3, "closed"), (2, "failed"), (1, "running"),
    ]  # fmt: skip
    bad = (await get(producer, "task/get_job_descriptions", task_id=task_id, unsuccessful_only="True"))["data"]
    assert [one["PandaID"] for one in bad] == [3, 2]
    assert (bad[1]["jobPars"], bad[1]["errorDialog"], bad[1]["jediTaskID"]) == ("--x", "no", task_id)
    assert (await get(producer, "task/get_job_descriptions", task_id=99))["data"] == 2
    assert (await get(user, "task/get_job_descriptions", task_id=task_id))["data"] == 2


async def test_whether_the_server_is_alive_may_be_asked_without_a_token(service: Service, authority: Authority) -> None:
    served = httpx.ASGITransport(application_of(service, authority))
    async with httpx.AsyncClient(transport=served, base_url="http://tasks") as anybody:
        reply = await anybody.get("/api/v1/system/is_alive")
        assert reply.json() == {"success": True, "message": "", "data": None}
        assert (await anybody.get("/api/v1/task/list")).status_code == 401


async def test_a_killed_task_can_be_looked_at(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id, _ = await define(database, service, producer, production())
    await put(database, task_id, "aborted", error_dialog="kill by prodteam")
    assert "says: kill by prodteam" in (await get(producer, f"explain/task/{task_id}"))["data"]["text"]


NASTY_READS = [
    ("task/get_status", {"task_id": 2**70}),
    ("task/get_details", {"task_id": 2**63}),
    ("task/get_job_ids", {"task_id": 10**30}),
    ("task/get_job_descriptions", {"task_id": 10**30}),
    ("task/get_job_descriptions", {"task_id": 1, "unsuccessful_only": "perhaps"}),
    ("task/get_datasets_and_files", {"task_id": 2**64}),
    ("task/list", {"name": "a\x00b"}),
    ("task/list", {"offset": 2**40}),
    ("task/list", {"user_name": "\x00"}),
    ("task/list", {"status": "ready,sleeping"}),
    ("task/get_tasks_modified_since", {"min_task_id": 2**63}),
    ("task/get_tasks_modified_since", {"since": "next week"}),
    ("task/get_tasks_detailed_info_since", {"n_tasks": -1}),
    ("task/get_tasks_detailed_info_since", {"filters": '{"reqid": [1]}'}),
    ("task/get_tasks_detailed_info_since", {"filters": '{"taskName": 5}'}),
    ("task/get_tasks_detailed_info_since", {"filters": '{"status": {"a": 1}}'}),
    ("task/get_tasks_detailed_info_since", {"filters": '{"jediTaskID": "\u00b2"}'}),
    ("explain/task/99999999999999999999", {}),
    ("explain/job", {"job_id": 2**63}),
    ("catalogue/dataset", {"name": "a\x00"}),
    ("config/get", {"component": "\x00", "key": "k"}),
]


@pytest.mark.parametrize(("path", "query"), NASTY_READS)
async def test_a_question_with_an_impossible_value_is_refused_with_a_reason(
    service: Service, user: httpx.AsyncClient, path: str, query: dict[str, object]
) -> None:
    assert service.web is not None
    reply = await user.get(f"/api/v1/{path}", params=query)
    assert reply.status_code == 200 and reply.json()["success"] is False, reply.text
    assert reply.json()["message"]


async def test_a_parameter_of_another_application_is_stored_found_and_forgotten_without_naming_it(
    database: Database, service: Service, operator: httpx.AsyncClient
) -> None:
    body = {"component": "prio_mgr", "key": "CAP_RUNNING_USER_JOBS"}
    assert (await operator.post("/api/v1/config/set", json={**body, "value": 100})).json()["success"]
    found = (await get(operator, "config/get", **body))["data"]
    assert (found["app"], found["value"], found["type"]) == ("pandaserver", "100", "float")
    assert (await operator.post("/api/v1/config/unset", json=body)).json()["success"]
    assert await value_of(database, "SELECT count(*) FROM parameters") == 0


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("task/kill", {"task_id": 2**70}),
        ("task/kill", {"task_id": 1, "reason": "a\x00"}),
        ("task/retry", {"task_id": 1, "new_parameters": "[1]"}),
        ("config/set", {"component": "c", "key": "k", "value": 10**30, "new": True}),
        ("config/set", {"component": "c", "key": "k", "value": "a\x00", "new": True}),
        ("config/set", {"component": "c", "key": "a\x00", "value": 1, "new": True}),
        ("catalogue/import", {"content": {"format": "a\x00"}}),
    ],
)
async def test_an_order_with_an_impossible_value_is_refused_and_changes_nothing(
    service: Service, database: Database, operator: httpx.AsyncClient, path: str, body: dict[str, object]
) -> None:
    assert service.web is not None
    reply = await operator.post(f"/api/v1/{path}", json=body)
    assert reply.status_code == 200 and reply.json()["success"] is False, reply.text
    assert await value_of(database, "SELECT count(*) FROM parameters") == 0


async def test_what_the_client_calls_active_and_ended_filters_a_list(
    database: Database, service: Service, user: httpx.AsyncClient
) -> None:
    active, _ = await define(database, service, user, analysis("user.alice.active"))
    ended, _ = await define(database, service, user, analysis("user.alice.ended"))
    await put(database, ended, "done")

    async def found(**filters: str) -> list[int]:
        answer = await get(user, "task/get_tasks_detailed_info_since", filters=json.dumps(filters))
        return [one["jediTaskID"] for one in answer["data"]]

    assert (await found(superStatus="running"), await found(superStatus="done")) == ([active], [ended])
    assert await found(superStatus="submitting") == await found(superStatus="running", status="done") == []


async def test_a_caller_hears_name_roles_groups_and_rights(service: Service, authority: Authority) -> None:
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app=application_of(service, authority)), base_url="http://task-definition"
    ) as client:
        token = authority.issue("ada", ["user"], ["atlas", "atlas/higgs"], rights=["submit"])
        client.headers["Authorization"] = f"Bearer {token}"
        told = (await get(client, "system/get_attributes"))["data"]["environment"]
    assert told == {
        "REMOTE_USER": "ada", "ROLES": "user", "GROUPS": "atlas,atlas/higgs", "VO": "atlas", "RIGHTS": "submit",
        "GRST_CRED_AURI_0": "dn:ada", "GRST_CRED_AURI_1": "fqan:/atlas", "GRST_CRED_AURI_2": "fqan:/atlas/higgs",
    }  # fmt: skip


async def test_the_parent_of_a_task_is_told_or_that_it_has_none(
    database: Database, service: Service, user: httpx.AsyncClient
) -> None:
    parent, _ = await define(database, service, user, analysis("user.alice.parent"))
    child, _ = await define(database, service, user, analysis("user.alice.child", parent_tid=parent))
    assert (await get(user, "task/get_parent_detailed_info", task_id=child))["data"]["jediTaskID"] == parent
    alone = await get(user, "task/get_parent_detailed_info", task_id=parent)
    assert (alone["data"], alone["message"]) == (2, f"task {parent} has no parent")
    assert (await get(user, "task/get_parent_detailed_info", task_id=4711))["data"] == 2


@pytest.mark.parametrize(
    ("value", "would_be", "wrong"),
    [
        (" 7 ", 7, None),
        ("many", None, "allowed: a number from 1"),
        ("0", None, "allowed: a number from 1"),
        (None, "nothing", None),
    ],
)
async def test_a_value_is_read_as_the_parameter_would_be_before_it_is_set(
    operator: httpx.AsyncClient, value: str | None, would_be: object, wrong: str | None
) -> None:
    query = {"component": "jobbroker", "key": "MAX_CANDIDATES", **({} if value is None else {"value": value})}
    found = (await get(operator, "config/describe", **query))["data"]
    assert found.get("would_be", "nothing") == would_be
    assert (found.get("wrong") or "") == "" if wrong is None else wrong in found["wrong"]


async def test_a_parameter_is_described_with_what_holds_for_all_and_says_what_is_withheld(
    service: Service, authority: Authority, operator: httpx.AsyncClient
) -> None:
    named = {"component": "jobbroker", "key": "MAX_CANDIDATES"}

    async def told(client: httpx.AsyncClient, vo: str | None) -> tuple[object, object, object]:
        found = (await get(client, "config/describe", **named, **({"vo": vo} if vo else {})))["data"]
        general, own = (found[one] and found[one]["value"] for one in ("general", "set"))
        return own, general, found["withheld"]

    assert await told(operator, "atlas") == (None, None, False)
    await operator.post("/api/v1/config/set", json={**named, "value": 7})
    assert (await told(operator, "atlas"), await told(operator, None)) == ((None, "7", False), ("7", None, False))
    await operator.post("/api/v1/config/set", json={**named, "value": 3, "vo": "atlas"})
    assert await told(operator, "atlas") == ("3", "7", False)
    async with client_of(service, authority, "carol", "user", groups=["cms"]) as other:
        assert await told(other, "atlas") == (None, "7", True)
