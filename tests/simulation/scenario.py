"""The small world of the simulation: a few sites, and the input of tasks of a few jobs each."""

import gzip
import json
import random
from functools import cache
from pathlib import Path
from typing import Any

GRID = Path(__file__).resolve().parents[2] / "deploy" / "examples" / "grid"
NUCLEI, SATELLITES = 2, 3
#: input that is open, with so many files at first
GROWING, GROWING_FILES = "growing.EVNT", 2

#: limits and periods such that half a day of waiting is an hour, and leaps of time are no outage of our own
PARAMETERS: list[dict[str, Any]] = [
    {"app": app, "component": component, "key": key, "value": value}
    for app, component, key, value in (
        ("pandaserver", "watcher", "HEARTBEAT_TIMEOUT_production", 0.5),
        ("pandaserver", "watcher", "HEARTBEAT_TIMEOUT_analysis", 0.5),
        ("pandaserver", "job_timeout", "TIMEOUT_sent", 0.25),
        ("pandaserver", "job_timeout", "TIMEOUT_assigned", 2.0),
        ("pandaserver", "job_timeout", "TIMEOUT_holding", 3.0),
        ("jedi", "watchdog", "PENDING_WAIT_SCALE", 0.2),
        ("jedi", "watchdog", "JOBS_PERIOD_S", 300),
        ("jedi", "watchdog", "MISSED_S", 3600),
        ("jedi", "watchdog", "DISPATCHER_SILENCE_S", 3600),
    )
]

#: jumbo jobs are for small tasks too, and the switcher finds one that asks for none; a task whose build fails wherever
#: its input is waits for an hour and a half
PARAMETERS_OF_OTHER_KINDS: list[dict[str, Any]] = [
    {"app": "jedi", "component": component, "key": key, "value": value}
    for component, key, value in (
        ("jumbo_dog", "JUMBO_MIN_EVENTS_DISABLE", 40),
        ("jumbo_dog", "JUMBO_MIN_EVENTS_ENABLE", 300),
        ("jumbo_dog", "JUMBO_MAX_TASKS", 2),
        ("jumbo_dog", "JUMBO_MAX_CURR_PRIO", 10_000),
        ("jumbo_dog", "PERIOD_S", 60.0),
        ("watchdog", "PENDING_TIMEOUT_user", 1.5),
        ("jobgen", "UNSPLITTABLE_RETRY_S", 600.0),
    )
]
JUMBO_QUEUES = ("CA-IAAS-T3", "CERN-T0")
#: the object store of every other queue, by its place among them
OBJECT_STORES = (1, 2)


def small_grid() -> dict[str, Any]:
    """The example grid cut down to a few online queues at two nuclei and three satellites."""
    files = {path.name.split(".")[0]: _read(path) for path in sorted(GRID.iterdir()) if ".json" in path.name}
    sites = _records(files["sites"], "name")
    queues = _records(files["queues"], "siteid")
    usable = sorted({queue["atlas_site"] for queue in queues.values() if _plain(queue)} & set(sites))
    nuclei = [name for name in usable if _is_nucleus(sites[name])][:NUCLEI]
    satellites = [name for name in usable if not _is_nucleus(sites[name])][:SATELLITES]
    kept = {*nuclei, *satellites}
    files["sites"] = _cut(files["sites"], lambda name, record: name in kept, "name")
    files["queues"] = _cut(files["queues"], lambda _, record: record["atlas_site"] in kept and _plain(record), "siteid")
    files["storages"] = _cut(files["storages"], lambda _, record: record["site_name"] in kept, "ddm_endpoint_name")
    files["network_metrics"] = {
        key: value for key, value in files["network_metrics"].items() if set(key.split(":")) <= kept
    }
    files["software_map"] = {
        key: value
        for key, value in files["software_map"].items()
        if key == "ALL" or key in _records(files["queues"], "siteid")
    }
    return files


def grid_for_other_kinds() -> dict[str, Any]:
    """The same grid, where every queue takes event service, two are kept for jumbo jobs, some name object stores."""
    grid = small_grid()
    queues = {}
    for place, (name, queue) in enumerate(sorted(_records(grid["queues"], "siteid").items())):
        stores = [] if place % 2 else [{"os_bucket_id": OBJECT_STORES[place // 2 % len(OBJECT_STORES)]}]
        options = [str(queue.get("catchall") or ""), *(["useJumboJobs"] if name in JUMBO_QUEUES else [])]
        queues[name] = {**queue, "jobseed": "all", "catchall": ",".join(filter(None, options)),
                        "objectstores": stores}  # fmt: skip
    return {**grid, "queues": queues}


@cache
def queue_names() -> list[str]:
    """The queues that pilots are sent to."""
    return sorted(small_grid()["queues"])


def storages(grid: dict[str, Any]) -> list[str]:
    """Where input may lie."""
    records = _records(grid["storages"], "ddm_endpoint_name")
    return sorted(name for name, record in records.items() if record["type"] == "DATADISK")


def catalogue(grid: dict[str, Any]) -> dict[str, Any]:
    """Input of the tasks: for simulation, for derivation, for analysis a container of three; one dataset is open."""
    disks = storages(grid)
    rng = random.Random(7)
    datasets = [_dataset("simulation.EVNT", 3, 200, disks[:1], rng), _dataset("derivation.AOD", 8, 100, disks[:2], rng)]
    parts = [_dataset(f"analysis.part{number}", 2, 100, [disk], rng) for number, disk in enumerate(disks[:3])]
    container = {"scope": "sim", "name": "analysis/", "datasets": [part["name"] for part in parts]}
    growing = {**_dataset(GROWING, GROWING_FILES, 100, disks[:1], rng), "state": "open"}
    return {"format": "orrery-catalogue/1", "datasets": [*datasets, *parts, growing], "containers": [container]}


def _dataset(name: str, n_files: int, n_events: int, where: list[str], rng: random.Random) -> dict[str, Any]:
    files = [
        {"lfn": f"{name}._{number:06d}.root", "size_bytes": rng.randrange(10**7, 10**8), "n_events": n_events,
         "checksum": f"ad:{rng.randrange(16**8):08x}"}
        for number in range(1, n_files + 1)
    ]  # fmt: skip
    replicas = [{"storage": storage} for storage in where]
    return {"scope": "sim", "name": name, "state": "frozen", "files": files, "replicas": replicas}


def _read(path: Path) -> Any:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt") as file:
        return json.load(file)


def _records(data: Any, key: str) -> dict[str, Any]:
    return data if isinstance(data, dict) else {record[key]: record for record in data}


def _cut(data: Any, wanted: Any, key: str) -> Any:
    if isinstance(data, dict):
        return {name: record for name, record in data.items() if wanted(name, record)}
    return [record for record in data if wanted(record[key], record)]


def _plain(queue: dict[str, Any]) -> bool:
    return bool(queue["status"] == "online" and queue["type"] == "unified" and queue["corecount"] in (1, 8))


def _is_nucleus(site: dict[str, Any]) -> bool:
    policies = site.get("datapolicies") or []
    return "Nucleus" in policies or site.get("role") == "nucleus"
