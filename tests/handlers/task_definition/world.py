"""A catalogue and tasks for tests: 20 files of 1000 events, a secondary dataset, a container of two datasets."""

from __future__ import annotations

from typing import Any

from services.task_definition.data.importing.files import import_catalogue
from shared.db import Database


def small_catalogue() -> dict[str, Any]:
    series = {"lfn": "EVNT._{serial:06d}.root", "count": 20, "size_bytes": 1_000_000, "n_events": 1000}
    return {
        "format": "orrery-catalogue/1",
        "vo": "demo",
        "datasets": [
            {"scope": "mc", "name": "mc.evnt", "file_series": [series], "replicas": [{"storage": "ALPHA_DATADISK"}]},
            {
                "scope": "mc",
                "name": "mc.minbias",
                "file_series": [{"lfn": "HITS._{serial:06d}.root", "count": 8, "size_bytes": 5, "n_events": 10}],
            },
            {
                "scope": "data",
                "name": "data.a",
                "file_series": [{"lfn": "A._{serial}.root", "count": 7, "size_bytes": 10, "n_events": 50}],
                "replicas": [{"storage": "ALPHA_DATADISK"}, {"storage": "BETA_DATADISK", "first_files": 3}],
            },
            {
                "scope": "data",
                "name": "data.b",
                "file_series": [{"lfn": "B._{serial}.root", "count": 30, "size_bytes": 10, "n_events": 50}],
            },
            {"scope": "data", "name": "data.growing", "state": "open"},
        ],
        "containers": [{"scope": "data", "name": "data.all", "datasets": ["data.a", "data.b"]}],
    }


async def import_world(database: Database) -> None:
    async with database.begin(reason="test catalogue") as work:
        await import_catalogue(work.connection, small_catalogue())
        await work.connection.execute("UPDATE catalogue.datasets SET readable_by_all = true WHERE name LIKE 'data.%'")


def dataset_of(name: str) -> str:
    """What a task of this name writes: a user's is in the user's scope."""
    return f"{name}.out" if name.startswith("user.") else f"mc.{name}"


def output(name: str, **changes: Any) -> dict[str, Any]:
    return {
        "type": "template",
        "param_type": "output",
        "value": f"--out={name}.$JEDITASKID._${{SN/P}}.root",
        "dataset": dataset_of(name),
        **changes,
    }


def log(name: str) -> dict[str, Any]:
    return {
        "type": "template",
        "param_type": "log",
        "value": f"log.{name}.$JEDITASKID._${{SN/P}}.tgz",
        "dataset": f"{dataset_of(name)}.log",
    }


#: what a task that merges says besides mergeOutput
MERGING = {"mergeSpec": {"transPath": "Merge_tf.py", "jobParameters": "--in=${TRN_OUTPUT0} --out=${OUTPUT0}"}}


def an_input(dataset: str = "mc.evnt", stream: str = "IN", **changes: Any) -> dict[str, Any]:
    return {
        "type": "template",
        "param_type": "input",
        "value": f"--{stream}=${{{stream}}}",
        "dataset": dataset,
        **changes,
    }


def production(name: str = "simulation", inputs: list[dict[str, Any]] | None = None, **changes: Any) -> dict[str, Any]:
    """A production task: two files for each job unless changed."""
    items = [an_input()] if inputs is None else inputs
    task = {
        "taskName": name, "userName": "prodteam", "vo": "demo", "prodSourceLabel": "managed", "taskType": "prod",
        "taskPriority": 500, "processingType": "simul", "transPath": "Sim_tf.py",
        "coreCount": 8, "ramCount": 1000, "ramUnit": "MBPerCore",
        "nFilesPerJob": 2, "jobParameters": [*items, output(name)], "log": log(name), **changes,
    }  # fmt: skip
    return {key: value for key, value in task.items() if value is not None}


def analysis(name: str = "user.alice.histograms", **changes: Any) -> dict[str, Any]:
    return production(
        name,
        [an_input("data.all/")],
        **{
            "prodSourceLabel": "user", "taskType": "anal", "nFilesPerJob": 1, "userName": None, "coreCount": 1,
            "ramCount": None, "ramUnit": None, **changes,
        },
    )  # fmt: skip
