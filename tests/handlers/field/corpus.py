"""What the field's server makes of tasks, and the world in which it made it (tests/data/conformance)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from services.task_definition.data.importing.files import import_catalogue
from shared.db import Database
from tests.handlers.grids import a_disk, a_record, load_grid
from tests.unit.brokerage.conformance import sample

SITE = "SITE_A"
#: other sites that tasks of the corpus name, or leave out
OTHERS = ("CERN", "BNL", "TRIUMF", "A", "B", "C", "XYZ", "OPQ1", "X1")
#: a kind of storage that a task of the corpus asks for
TOKEN = "X_Y"
#: what the service that picks events answered: a container of two datasets
PICKED = "user.jdoe.evpick.0000"
#: what the name of a dataset ends with of which a case has other files
HERE = "_here"
#: the number of the task wherever the field's server had one
FIELDS_TASK = "4242"


@dataclass(frozen=True)
class Case:
    """One task: what was submitted, what the field's server refined it to, and the jobs that it made.

    `files`: other contents of datasets than in all other cases.
    """

    name: str
    submitted: dict[str, Any]
    prepared: dict[str, Any] | None
    refined: dict[str, Any]
    made: dict[str, Any]
    files: dict[str, list[list[Any]]]


def cases() -> list[Case]:
    """All cases of which the field's server made jobs, in the order of the corpus."""
    made = {one["in"]["name"]: one for one in sample("jobs_visible")["cases"]}
    return [
        Case(
            name,
            one["in"]["params"],
            one["in"].get("after_preprocessing"),
            one["out"],
            made[name]["out"],
            made[name]["in"].get("files_here") or {},
        )
        for one in sample("refine_visible")["cases"]
        if made[name := one["in"]["name"]]["out"] is not None
    ]


def _grid() -> dict[str, Any]:
    names = (SITE, *OTHERS)
    queues = {
        name: a_record(name, name, jobseed="all", maxwdir=400_000, direct_access_lan=True, direct_access_wan=False)
        for name in names
    }
    for name, queue in queues.items():
        disks = [f"{name}_DATADISK", f"{name}_{TOKEN}"]
        queue["astorages"] = {"read_lan": disks, "write_lan": disks}
    sites: dict[str, Any] = {name: {"name": name, "state": "ACTIVE", "datapolicies": []} for name in names}
    sites[SITE]["datapolicies"] = ["Nucleus"]
    near = {"latest": 3, "timestamp": "2026-01-01T00:00:00"}
    return {
        "queues": queues,
        "sites": sites,
        "storages": {f"{name}_DATADISK": a_disk(name) for name in names}
        | {f"{name}_{TOKEN}": a_disk(name, ddm_endpoint_name=f"{name}_{TOKEN}", type=TOKEN) for name in names},
        "network_metrics": {f"{a}:{SITE}": {"src": a, "dst": SITE, "closeness": near} for a in names},
    }


def _files(given: list[list[Any]]) -> list[dict[str, Any]]:
    named = ("lfn", "size_bytes", "n_events", "lumi_block")
    return [{name: value for name, value in zip(named, one, strict=True) if value is not None} for one in sorted(given)]


def _catalogue(datasets: dict[str, list[list[Any]]]) -> dict[str, Any]:
    listed = []
    for full, files in datasets.items():
        scope, _, name = full.partition(":")
        replicas = [{"storage": f"{SITE}_DATADISK"}]
        listed.append({"scope": scope, "name": name, "files": _files(files), "replicas": replicas})
    parts = [one["name"] for one in listed if one["name"].startswith(PICKED)]
    containers = [{"scope": "user.jdoe", "name": PICKED, "datasets": parts}] if parts else []
    return {"format": "orrery-catalogue/1", "vo": "atlas", "datasets": listed, "containers": containers}


async def put_world(database: Database) -> None:
    """The grid and the datasets of the corpus, readable by all."""
    await load_grid(database, _grid())
    await put_files(database, sample("jobs_visible")["datasets"])


async def put_files(database: Database, datasets: dict[str, list[list[Any]]]) -> None:
    """Datasets with these files."""
    async with database.begin(reason="datasets of the corpus") as work:
        await import_catalogue(work.connection, _catalogue(datasets))
        await work.connection.execute("UPDATE catalogue.datasets SET readable_by_all = true")
