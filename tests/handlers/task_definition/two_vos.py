"""Two VOs with people of both, and datasets of each: atlas has data23.*, cms has run3.*."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import httpx

from shared.auth import Authority
from shared.db import Database
from shared.runtime.service import Service
from tests.handlers.task_definition.conftest import client_of
from tests.handlers.task_definition.steps import rows_of
from tests.handlers.task_definition.world import an_input, analysis, production

NOT_PERMITTED = 3


class People:
    """Clients by name and VO: `atlas.production`, `cms.ada`."""

    def __init__(self, service: Service, authority: Authority) -> None:
        self._service, self._authority = service, authority
        self.atlas_production = self.of("atlasprod", "production", "atlas/production")
        self.cms_production = self.of("cmsprod", "production", "cms/production")
        self.atlas_ada, self.cms_ada = self.of("ada", "user", "atlas"), self.of("ada", "user", "cms")
        self.atlas_bob = self.of("bob", "user", "atlas")
        self.operator = self.of("chief", "operator")
        self.everyone = self.of("central", "production")

    def of(self, name: str, role: str, *groups: str) -> httpx.AsyncClient:
        return client_of(self._service, self._authority, name, role, groups=groups)


def a_dataset(name: str, state: str = "open", n_files: int = 2, size: int = 10, **changes: Any) -> dict[str, Any]:
    series = {"lfn": f"{name}._{{serial}}", "count": n_files, "size_bytes": size, "n_events": 5}
    return {
        "scope": name.split(".", maxsplit=1)[0], "name": name, "state": state, "file_series": [series],
        "replicas": [{"storage": "ALPHA_DATADISK"}], **changes,
    }  # fmt: skip


def a_file(*datasets: dict[str, Any], containers: Sequence[dict[str, Any]] = (), **more: Any) -> dict[str, Any]:
    return {"format": "orrery-catalogue/1", "datasets": list(datasets), "containers": list(containers), **more}


async def take_in(client: httpx.AsyncClient, *datasets: dict[str, Any], **more: Any) -> dict[str, Any]:
    reply: dict[str, Any] = (await client.post("/api/v1/catalogue/import", json=a_file(*datasets, **more))).json()
    return reply


async def imported(client: httpx.AsyncClient, *datasets: dict[str, Any], **more: Any) -> None:
    reply = await take_in(client, *datasets, **more)
    assert reply["success"], reply


async def get(client: httpx.AsyncClient, path: str, **query: Any) -> dict[str, Any]:
    reply: dict[str, Any] = (await client.get(f"/api/v1/catalogue/{path}", params=query)).json()
    return reply


async def offer(client: httpx.AsyncClient, task: dict[str, Any], **more: Any) -> dict[str, Any]:
    reply: dict[str, Any] = (await client.post("/api/v1/task/submit", json={"task_parameters": task, **more})).json()
    return reply


def plain(name: str) -> str:
    """What a task and its files may be called."""
    return "".join(one if one.isalnum() or one in ".-" else "_" for one in name).rstrip(".")


def writing(name: str, vo: str = "cms", **changes: Any) -> dict[str, Any]:
    """A production task without input whose output, and log, are so called."""
    task = production(plain(name), [], vo=vo, noInput=True, nFiles=2, nFilesPerJob=None, **changes)
    return with_output(task, name)


def analysing(name: str, vo: str = "cms", **changes: Any) -> dict[str, Any]:
    """A user's task over nothing."""
    task = analysis(plain(name), vo=vo, noInput=True, nFiles=2, nFilesPerJob=None, **changes)
    task["jobParameters"] = [one for one in task["jobParameters"] if one["param_type"] != "input"]
    return with_output(task, name)


def reading(dataset: str, vo: str = "cms", **changes: Any) -> dict[str, Any]:
    return with_output(production(plain(f"reads.{dataset}"), [an_input(dataset)], vo=vo, **changes), "run3.made")


def with_output(task: dict[str, Any], name: str) -> dict[str, Any]:
    task["jobParameters"][-1]["dataset"], task["log"]["dataset"] = name, f"{name}.log"
    return task


async def contents(database: Database) -> list[tuple[Any, ...]]:
    """All that the catalogue has: datasets with counters and states, files, containers, copies."""
    found = await rows_of(
        database,
        "SELECT d.name, d.scope, d.kind, d.state, d.n_files, d.n_bytes,"
        " (SELECT array_agg(f.lfn ORDER BY 1) FROM catalogue.files f WHERE f.dataset_id = d.dataset_id),"
        " (SELECT array_agg(r.storage || r.n_files ORDER BY 1) FROM catalogue.dataset_replicas r"
        "   WHERE r.dataset_id = d.dataset_id),"
        " (SELECT count(*) FROM catalogue.file_replicas JOIN catalogue.files f USING (file_id)"
        "   WHERE f.dataset_id = d.dataset_id),"
        " (SELECT array_agg(c.dataset_id ORDER BY 1) FROM catalogue.containers c WHERE c.container_id = d.dataset_id)"
        " FROM catalogue.datasets d ORDER BY d.name",
    )
    return [tuple(row) for row in found]


async def owner_of(database: Database, scope: str) -> list[tuple[str, str]]:
    return [(row["vo"], row["owner"]) for row in await rows_of(
        database, "SELECT vo, owner FROM catalogue.scopes WHERE scope = $1", scope)]  # fmt: skip
