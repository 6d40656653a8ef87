"""Tasks of well-formed fields that would run something else than meant, or nothing: refused under their own field."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from shared.auth import Authority
from shared.db import Database
from shared.runtime.service import Service
from tests.handlers.task_definition.conftest import client_of
from tests.handlers.task_definition.steps import submit, value_of
from tests.handlers.task_definition.test_submission import refusal
from tests.handlers.task_definition.world import an_input, analysis, log, output, production
from tests.rows import insert


async def told(client: httpx.AsyncClient, task: dict[str, Any]) -> dict[str, str]:
    """What is said of each field."""
    return {one["field"]: one["allowed"] for one in (await refusal(client, task))["problems"]}


async def test_a_vo_that_nobody_has_is_refused_with_the_nearest(
    database: Database, producer: httpx.AsyncClient
) -> None:
    said = await told(producer, production(vo="demmo"))
    assert said["vo"].startswith("no such VO is known; did you mean demo?; known: demo; ")
    assert await value_of(database, "SELECT count(*) FROM tasks") == 0


@pytest.mark.parametrize(
    "record",
    [
        ("users", {"user_name": "eve", "vo": "beta"}),
        ("catalogue.scopes", {"scope": "b1", "vo": "beta", "claimed_by": "x"}),
    ],
    ids=["an account", "a scope"],
)
async def test_a_vo_becomes_known_by_what_names_it(
    database: Database, producer: httpx.AsyncClient, record: tuple[str, dict[str, Any]]
) -> None:
    assert "vo" in await told(producer, production(vo="beta"))
    async with database.read() as connection:
        await insert(connection, *record)
    assert "vo" not in await told(producer, production(vo="beta", nFilesPerJob=-1))


@pytest.mark.parametrize("vo_name", ["beta", "alpha, beta", ["alpha", "beta"]])
async def test_a_vo_is_known_by_a_queue_of_it(database: Database, producer: httpx.AsyncClient, vo_name: Any) -> None:
    async with database.read() as connection:
        await connection.execute("UPDATE queues SET data = data || jsonb_build_object('vo_name', $1::jsonb)", vo_name)
    assert "vo" not in await told(producer, production(vo="beta", site="NOWHERE"))


async def test_a_vo_is_known_by_the_token_of_who_submits_for_it(service: Service, authority: Authority) -> None:
    async with client_of(service, authority, "bea", "production", groups=["beta"]) as client:
        assert "vo" not in await told(client, production(vo="beta", site="NOWHERE"))


async def test_a_task_without_a_transformation_is_refused(producer: httpx.AsyncClient) -> None:
    assert list(await told(producer, production(transPath=None))) == ["transPath"]


@pytest.mark.parametrize("merge_spec", [None, {}, {"transPath": "Merge_tf.py"}])
async def test_merging_without_a_command_line_of_merge_jobs_is_refused(
    producer: httpx.AsyncClient, merge_spec: dict[str, str] | None
) -> None:
    said = await told(producer, production(mergeOutput=True, mergeSpec=merge_spec))
    assert said == {
        "mergeSpec.jobParameters": "is needed where mergeOutput is true: merge jobs run its command line,"
        " not that of the other jobs"
    }


async def test_a_log_in_the_dataset_of_an_output_is_refused(producer: httpx.AsyncClient) -> None:
    task = production("mixed")
    task["log"] = log("mixed") | {"dataset": output("mixed")["dataset"]}
    said = await told(producer, task)
    assert list(said) == ["log.dataset"]
    assert said["log.dataset"].startswith("is the dataset of an output (jobParameters.1.dataset)")


async def test_a_label_of_users_with_the_type_of_production_is_refused(producer: httpx.AsyncClient) -> None:
    said = await told(producer, production(prodSourceLabel="user"))
    assert said["taskType"] == "allowed with prodSourceLabel 'user': 'anal'"


async def test_a_wrong_label_is_refused_by_its_own_name(database: Database, producer: httpx.AsyncClient) -> None:
    async with database.read() as connection:
        for position, (name, label) in enumerate((("MC", "managed"), ("Analysis", "user|panda"))):
            row = {"gshare": name, "value": 50, "position": position, "prod_source_label": label}
            await insert(connection, "shares", row)
    said = await told(producer, production(prodSourceLabel="manged"))
    assert said == {"prodSourceLabel": "no share takes this label; allowed: managed, user|panda"}


async def test_the_outputs_of_a_task_that_was_submitted_a_moment_ago_are_taken(
    database: Database, producer: httpx.AsyncClient
) -> None:
    task_id = await submit(producer, production("first"))
    second = production("second")
    second["jobParameters"][-1] = output("first")
    said = await told(producer, second)
    allowed = "one of its own, or allowTaskDuplication"
    assert said == {"jobParameters.1.dataset": f"task {task_id} writes this dataset; allowed: {allowed}"}
    assert await value_of(database, "SELECT count(*) FROM task_datasets") == 0, "the first is not defined yet"


async def test_nobody_writes_datasets_of_one_user_for_another(
    producer: httpx.AsyncClient, operator: httpx.AsyncClient
) -> None:
    task = analysis("user.bob.histograms", userName="ada")
    for client in (producer, operator):
        said = await told(client, task)
        assert said and all("scope user.bob is not of ada, who owns the task" in one for one in said.values())
    await submit(producer, analysis("user.bob-demo.histograms", userName="bob"))


async def test_input_in_a_wrong_scope_is_refused_with_the_right_one(producer: httpx.AsyncClient) -> None:
    said = await told(producer, production("wrong", inputs=[an_input("data99:mc.evnt")]))
    assert said == {
        "jobParameters.0.dataset": "the catalogue has it in another scope; allowed: mc:mc.evnt, or no scope"
    }
    await submit(producer, production("right", inputs=[an_input("mc:mc.evnt")]))
