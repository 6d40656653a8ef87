"""Every option of the published client, as it was recorded: what it sends is taken, or refused with a sentence."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from services.task_definition.app import build
from services.task_definition.data.importing.files import import_catalogue
from shared.auth import Authority
from shared.db import Database
from shared.runtime.service import Context
from tests.handlers.events import started
from tests.handlers.task_definition.conftest import client_of
from tests.handlers.task_definition.steps import value_of
from tests.unit.brokerage.conformance import sample

RECORDED = {one["in"]["name"]: one for one in sample("client_visible")["cases"] if one["out"] is not None}
#: what this version does not carry out -> what its user is told
REFUSED = {
    "ph_n": "hpoRequestData.executable = 'docker': the steering container, which proposes points by the losses of",
}
#: split rules that an option of these cases makes; None: it makes none
RULES: dict[str, dict[str, Any]] = {
    "prun_avoidvp": {"avoidVP": True},
    "prun_maxcore": {"maxCoreCount": 32},
    "prun_tt_direct": {"useLocalIO": None},
    "pa_forcedirect_sites": {"useLocalIO": None},
    "pa_nolooping": {"noLoopingCheck": True},
    "prun_nfpj_small": {"nFilesPerJob": 2, "skipScout": None},
    "prun_skipscout": {"skipScout": None},
    "prun_noretry": {"disableAutoRetry": True},
    "prun_respectlb": {"respectLB": True},
    "prun_merge": {"mergeOutput": True},
    "prun_walltime": {"maxWalltime": 6},
    "pa_ngb_max": {"nMaxFilesPerJob": None},
    "prun_nepj_nepf": {"nEventsPerJob": 500, "nEventsPerInputFile": 2000},
}
_DATASET = re.compile(r'"dataset": "([^"%]+?)/?"')
SERIES = {"lfn": "F._{serial:06d}.pool.root", "count": 12, "size_bytes": 10**9, "n_events": 2000}


def datasets_read(name: str) -> set[str]:
    """Of a recorded case; what it writes is not among them."""
    found = set()
    for task in RECORDED[name]["out"]["tasks"]:
        for item in task["task_params"]["jobParameters"]:
            if item["type"] == "template" and item.get("param_type") == "input" and "%%" not in item["dataset"]:
                found |= {one.rpartition(":")[2].rstrip("/") for one in item["dataset"].split(",")}
    return found


@pytest.fixture
async def jdoe(context: Context, database: Database, authority: Authority) -> AsyncIterator[httpx.AsyncClient]:
    """The person who typed the commands, with a catalogue of all that they read, and no grid."""
    names = sorted({one for name in RECORDED for one in datasets_read(name)})
    datasets = [{"scope": one.partition(".")[0], "name": one, "file_series": [SERIES]} for one in names]
    async with database.begin(reason="test catalogue") as work:
        await import_catalogue(
            work.connection, {"format": "orrery-catalogue/1", "vo": "atlas", "datasets": datasets, "containers": []}
        )
        await work.connection.execute("UPDATE catalogue.datasets SET readable_by_all = true")
    async with client_of(await started(build(context)), authority, "jdoe", "user") as client:
        yield client


async def submitted(client: httpx.AsyncClient, name: str) -> list[dict[str, Any]]:
    """The answers to what a case sends, which is looked at and not kept."""
    return [
        (await client.post("/api/v1/task/submit", json={"task_parameters": one["task_params"], "dry_run": True})).json()
        for one in RECORDED[name]["out"]["tasks"]
    ]


async def test_what_the_client_sends_is_taken_or_refused_with_a_sentence_and_its_rules_are_those_of_its_options(
    jdoe: httpx.AsyncClient, database: Database
) -> None:
    answers = {name: await submitted(jdoe, name) for name in RECORDED}
    refused = {name: [one for one in of if not one["success"]] for name, of in answers.items()}
    told = {name: [one["message"] for one in of] for name, of in refused.items() if of}
    assert sorted(told) == sorted(REFUSED), {name: of for name, of in told.items() if name not in REFUSED}
    for name, sentence in REFUSED.items():
        assert sentence in told[name][0], told[name]
    wrong = {}
    for name, rules in RULES.items():
        [answer] = answers[name]
        found = {rule: answer["data"]["split_rule"].get(rule) for rule in rules}
        if found != rules:
            wrong[name] = found
    assert wrong == {}
    assert await value_of(database, "SELECT count(*) FROM tasks") == 0


async def test_what_is_read_and_written_is_what_the_client_says(jdoe: httpx.AsyncClient) -> None:
    for name in ("prun_in_out_build", "prun_two_in", "pa_trf_two_out", "prun_out_several", "pa_lowhigh"):
        [answer] = await submitted(jdoe, name)
        read = {one["dataset"] for one in answer["data"]["inputs"]}
        assert read == datasets_read(name), name
        items = json.dumps(RECORDED[name]["out"]["tasks"][0]["task_params"])
        written = {one for one in _DATASET.findall(items) if one.startswith("user.jdoe.test1")}
        assert {one for one in written if not any(f.startswith(one) for f in answer["data"]["outputs"])} == set(), name


async def test_what_a_user_is_not_given_is_told(jdoe: httpx.AsyncClient) -> None:
    [skips] = await submitted(jdoe, "prun_skipscout")
    assert skips["data"]["warnings"] == [
        "skipScout is taken and nothing is done for it: official tasks alone skip their scouts"
    ]
    [plain] = await submitted(jdoe, "pa_prio")
    assert "warnings" not in plain["data"], "1050 is within what users may say"
