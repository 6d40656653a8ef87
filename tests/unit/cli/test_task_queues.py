"""`orrery dry-run task-queues`: the order of a world's task queues with every term."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from services.cli.app import app

SHARED = {"vo": "lhcb", "name": "prod", "job_share": 3000, "job_sharing": True}
QUEUES = [
    {"vo": "lhcb", "user_group": "prod", "user_name": "ann", "tags": ["GPU"], "n_jobs": {"1": 3}},
    {"vo": "lhcb", "user_group": "prod", "user_name": "bob", "n_jobs": {"1": 1}},
    {"vo": "lhcb", "user_group": "analysis", "user_name": "cid", "n_jobs": {"5": 2}},
    {"vo": "lhcb", "user_group": "analysis", "user_name": "dan", "n_jobs": {"1": 1, "3": 1}},
]


def world(tmp_path: Path, **more: Any) -> str:
    content = {
        "format": "orrery-world/1", "now": "2026-01-01T00:00:00+00:00", "queues": {}, "sites": {}, "storages": {},
        "user_groups": [SHARED], "task_queues": QUEUES, **more,
    }  # fmt: skip
    path = tmp_path / "world.json"
    path.write_text(json.dumps(content))
    return str(path)


def rows(path: str) -> list[dict[str, Any]]:
    found = CliRunner().invoke(app, ["dry-run", "task-queues", "--world", path, "--json"])
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout)


def test_task_queues_are_listed_by_priority_with_every_term(tmp_path: Path) -> None:
    found = rows(world(tmp_path))
    assert [(one["user_name"], one["priority"]) for one in found] == [
        ("ann", 2250.0), ("bob", 750.0), ("cid", 500.0), ("dan", 500.0),
    ]  # fmt: skip
    first = found[0]
    terms = ("group_share", "group_correction", "n_users", "entity_share", "n_jobs", "user_priority",
             "sum_user_priority", "is_background", "tags")  # fmt: skip
    assert [first[name] for name in terms] == [3000.0, 1.0, 1, 3000.0, 3, 3.0, 4.0, False, ["GPU"]]


def test_corrections_and_the_way_of_consolidation_of_the_world_count(tmp_path: Path) -> None:
    average = [{"component": "order", "key": "CONSOLIDATION", "vo": "lhcb", "value": "average"}]
    factors = [
        {"vo": "lhcb", "user_group": "analysis", "user_name": "cid", "correction_factor": 0.5},
        {"vo": "lhcb", "user_group": "prod", "correction_factor": 2.0},
    ]
    path = world(tmp_path, parameters=average, group_corrections=factors)
    found = {one["user_name"]: one["priority"] for one in rows(path)}
    assert found == {"ann": 3000.0, "bob": 3000.0, "cid": 250.0, "dan": 500.0}


def test_the_table_names_queue_priority_and_group(tmp_path: Path) -> None:
    found = CliRunner().invoke(app, ["dry-run", "task-queues", "--world", world(tmp_path)])
    assert found.exit_code == 0 and "priority" in found.stdout and "2250" in found.stdout


@pytest.mark.parametrize("n_jobs", [{"11": 1}, {"1": -1}, {"one": 1}])
def test_a_world_with_impossible_counts_is_refused(tmp_path: Path, n_jobs: dict[str, int]) -> None:
    path = world(tmp_path, task_queues=[{**QUEUES[0], "n_jobs": n_jobs}])
    found = CliRunner().invoke(app, ["dry-run", "task-queues", "--world", path])
    assert found.exit_code != 0
