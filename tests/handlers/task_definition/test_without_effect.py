"""What is accepted and does nothing is said in the answer of the very call."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.handlers.task_definition.test_accounts import post

LIMITS = {"*": {"Platform": {"x86": 5}}}


async def setting(client: httpx.AsyncClient, component: str, key: str, value: Any, vo: str | None = None) -> str:
    reply = await post(client, "config/set", {"component": component, "key": key, "value": value, "vo": vo})
    assert reply["success"], reply
    return reply["message"]


@pytest.mark.parametrize("key", ["RUNNING_LIMITS", "MATCHING_DELAYS"])
async def test_limits_of_sites_without_task_queues_say_what_they_need(operator: httpx.AsyncClient, key: str) -> None:
    said = await setting(operator, "order", key, LIMITS, "cms")
    assert said.endswith(
        "; it has no effect: no jobs for cms are in task queues; needed: order.TASK_QUEUES within or instead for cms"
    )
    assert "it has no effect: no jobs are in task queues" in await setting(operator, "order", key, LIMITS)
    await setting(operator, "order", "TASK_QUEUES", "within", "atlas")
    assert "has no effect" in await setting(operator, "order", key, LIMITS, "cms"), "those of another VO"
    assert "no effect" not in await setting(operator, "order", key, LIMITS, "atlas")
    assert "no effect" not in await setting(operator, "order", key, LIMITS), "atlas has some"
    off = await setting(operator, "order", "TASK_QUEUES", "off", "atlas")
    assert off.endswith(f"; {key} for atlas has no effect any more")


async def test_corrections_that_are_switched_off_or_on_by_default_say_so(operator: httpx.AsyncClient) -> None:
    nothing: dict[str, Any] = {"ShareCorrectorsToStart": []}
    said = await setting(operator, "share_correction", "ShareCorrections", nothing)
    assert "share_correction.EnableSharesCorrection is true here where it is not set (in DIRAC it is false)" in said
    await setting(operator, "share_correction", "EnableSharesCorrection", False, "cms")
    off = await setting(operator, "share_correction", "ShareCorrections", nothing, "cms")
    assert off.endswith(
        "it has no effect: all factors are 1; needed: share_correction.EnableSharesCorrection true for cms"
    )
    assert "effect" not in await setting(operator, "share_correction", "ShareCorrections", nothing, "atlas")


async def test_letters_that_do_nothing_are_named(operator: httpx.AsyncClient) -> None:
    said = (await post(operator, "user/set", {"user_name": "ada", "GRIDPREF": "stk"}))["message"]
    assert said == (
        "user ada is set; the letter t is kept for access tokens: no effect here, because whoever has a token key gets "
        "tokens"
    )
    loaded = await post(operator, "user/load", {"users": [{"user_name": "ada", "GRIDPREF": "a"}]})
    assert "the letter a is kept for administrator: no effect here" in loaded["message"]
    assert (await post(operator, "user/set", {"user_name": "bob", "GRIDPREF": "k"}))["message"] == "user bob is set"


async def test_shares_of_work_queues_say_that_the_tree_divides(operator: httpx.AsyncClient) -> None:
    queue = {"queue_id": 2, "name": "rest", "label": "managed", "vo": "demo", "share": 40, "stretchable": True}
    reply = await post(operator, "work_queue/set", {"work_queue": queue})
    assert [one.split(":")[0] for one in reply["data"]["without_effect"]] == [
        "share of rest has no effect",
        "stretchable of rest has no effect",
    ]
    assert reply["message"].startswith("1 work queues; share of rest has no effect: the tree of shares says how")
