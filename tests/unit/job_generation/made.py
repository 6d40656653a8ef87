"""Values for the policies, with everything a test does not care about filled in."""

from __future__ import annotations

from typing import Any

from services.job_generation.policy.values import Dataset, QueueFacts, Task, Unit
from shared.model.storage import Storage
from shared.task.in_effect import rules_of
from shared.task.needs import WorkNeeds

GB = 1024**3


def a_task(rule: dict[str, Any] | None = None, **values: Any) -> Task:
    given: dict[str, Any] = {
        "task_id": 7, "status": "running", "name": "mc.simul", "user_name": "alice", "prod_source_label": "managed",
        "priority": 100, "gshare": "MC", "resource_type": "SCORE", "core_count": 1, "needs": WorkNeeds(),
        "trans_path": "Sim_tf.py", **values,
    }  # fmt: skip
    return Task(rules=rules_of(rule), **given)


def a_storage(name: str, kind: str = "DATADISK", **values: Any) -> Storage:
    return Storage(name, "SITE", kind, False, 1e6, 1e3, 0, 0, 0, **values)


def a_queue(name: str = "Q", **values: Any) -> QueueFacts:
    return QueueFacts(name, "SCORE", f"SITE_{name}", **values)


def some_units(count: int, *, dataset_id: int = 1, **values: Any) -> list[Unit]:
    given: dict[str, Any] = {"size_bytes": 1000, "n_events": 100, **values}
    return [
        Unit(number, f"f{dataset_id}._{number:05d}.root", dataset_id=dataset_id, **given) for number in range(count)
    ]


def a_dataset(dataset_id: int = 1, kind: str = "input", **values: Any) -> Dataset:
    given: dict[str, Any] = {
        "name": f"mc.{kind}.{dataset_id}",
        "status": "ready",
        "stream_name": "IN",
        "master_id": None,
        **values,
    }
    return Dataset(dataset_id=dataset_id, type=kind, **given)
