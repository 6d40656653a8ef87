"""What pilots read of queues and storages before they ask for a job, without a token."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from services.job_brokerage.app import build
from services.job_brokerage.policy.pilot_data import queue_for_pilots
from shared.model.grid import read_grid_folder
from shared.runtime.service import Context
from tests.applications import application_of
from tests.handlers.grids import small_grid

EXAMPLE = Path(__file__).parents[3] / "deploy" / "examples" / "grid"
#: of which the pilot takes copy tool and storage by what it does
PURPOSES = ("pr", "pw", "pl", "read_lan", "write_lan")


@pytest.fixture
async def nobody(context: Context) -> AsyncIterator[httpx.AsyncClient]:
    """A caller without a token."""
    web = application_of(build(context), context.authority)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(web), base_url="http://test") as client:
        yield client


async def load(nobody: httpx.AsyncClient, context: Context, files: dict[str, Any]) -> None:
    headers = {"Authorization": f"Bearer {context.authority.issue('olga', ['operator'])}"}
    answer = (await nobody.post("/api/v1/grid/load", json={"files": files}, headers=headers)).json()
    assert answer["success"] and "not read" not in answer["message"], answer


async def test_the_pilot_finds_copy_tools_and_storages_with_protocols_at_every_queue_of_the_example_grid(
    context: Context, nobody: httpx.AsyncClient
) -> None:
    await load(nobody, context, read_grid_folder(EXAMPLE))
    storages = (await nobody.get("/cache/ddmendpoints.json")).json()
    queues = (await nobody.get("/cache/schedconfig.json")).json()
    assert len(queues) == 48 and len(storages) == 85
    for name, queue in queues.items():
        alone = await nobody.get(f"/cache/schedconfig/{name}.all.json")
        assert alone.json() == queue and queue["panda_resource"] == name and queue["state"] == "ACTIVE"
        if queue["type"] == "analysis":
            continue  # reads and writes under the roles of analysis
        for purpose in PURPOSES:
            tools, places = queue["acopytools"][purpose], queue["astorages"][purpose]
            assert set(tools) <= set(queue["copytools"]) and places
            protocols = storages[places[0]]["arprotocols"][{"pr": "read_lan"}.get(purpose, "write_lan")]
            assert protocols[0]["endpoint"].startswith("file://") and storages[places[0]]["is_deterministic"] is True


async def test_another_grid_is_served_at_once_and_an_unknown_queue_is_an_error_that_the_pilot_understands(
    context: Context, nobody: httpx.AsyncClient
) -> None:
    empty = await nobody.get("/cache/schedconfig.json")
    assert empty.status_code == 200 and empty.json() == {}
    await load(nobody, context, small_grid())
    assert "Q_ALPHA" in (await nobody.get("/cache/schedconfig.json")).json()
    changed = small_grid()
    changed["queues"]["Q_ALPHA"]["status"] = "brokeroff"
    await load(nobody, context, changed)
    assert (await nobody.get("/cache/schedconfig.json")).json()["Q_ALPHA"]["status"] == "brokeroff"
    for file in ("NOWHERE.all.json", "Q_ALPHA", "%00.all.json", "..json"):
        missing = await nobody.get(f"/cache/schedconfig/{file}")
        assert missing.status_code == 404 and missing.json().get("error", "there is no queue"), file


def test_storages_that_a_queue_names_for_a_purpose_are_not_replaced_by_those_of_a_role() -> None:
    record = {"astorages": {"pw": ["OWN"], "write_lan": ["A"], "read_lan_analysis": ["B"]}, "nickname": "N"}
    made = queue_for_pilots("Q", record)
    assert made["astorages"] == {**record["astorages"], "pl": ["A"], "pr": ["B"]} and made["nickname"] == "N"
    assert "pr" not in record["astorages"] and queue_for_pilots("Q", {})["astorages"] == {}
