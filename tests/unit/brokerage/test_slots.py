"""The slot of one job: memory for each core, and queues that leave the number of cores to the task."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from services.job_brokerage.policy.production import ProductionJobBrokerage
from services.job_generation.policy.queue_facts import facts_of_candidates
from services.job_generation.policy.values import QueueFacts
from shared.brokerage.columns import build_columns
from shared.events import QueueChoice
from shared.model.grid import Grid
from shared.model.queue import Queue
from shared.model.resource_types import DEFAULT_RESOURCE_TYPES
from tests.unit.brokerage.worlds import LIGHT, a_queue, a_request, a_world
from tests.unit.job_generation.made import a_task

PER_CORE = {"per_core_attr": "true"}


def slots(queue: Queue) -> dict[str, tuple[int, float, float]]:
    """Cores, minrss and maxrss of each row."""
    columns = build_columns({queue.name: queue}, DEFAULT_RESOURCE_TYPES)
    rows = zip(columns.core_count.tolist(), columns.min_rss_mb.tolist(), columns.max_rss_mb.tolist(), strict=True)
    return dict(zip(columns.labels, rows, strict=True))


def chosen(queue: Queue, cores: int, **needs: Any) -> set[str]:
    needed = replace(LIGHT, core_count=cores, ram_per_core=True, **needs)
    return set(ProductionJobBrokerage().decide(a_world([queue]), a_request(needs=needed), 1).chosen)


def facts(queue: Queue, resource_type: str, cores: int) -> QueueFacts:
    [found] = facts_of_candidates(
        Grid({queue.name: queue}, {}, {}),
        a_task(core_count=cores, needs=replace(LIGHT, core_count=cores)),
        [QueueChoice(queue=queue.name, resource_type=resource_type, weight=1.0, max_jobs=None)],
        {},
    )
    return found


def test_memory_for_each_core_is_multiplied_by_the_cores_of_the_queue_before_it_is_cut_for_a_type() -> None:
    queue = a_queue("U", capability="ucore", core_count=8, max_rss_mb=2000, min_rss_mb=0, options=PER_CORE)
    assert slots(queue)["U/SCORE"] == (1, 0, 2000)
    assert slots(queue)["U/MCORE"] == (8, 0, 16_000)


def test_the_least_memory_for_each_core_is_multiplied_too() -> None:
    queue = a_queue("Q", core_count=8, max_rss_mb=4000, min_rss_mb=1500, options=PER_CORE)
    assert slots(queue)["Q"] == (8, 12_000, 32_000)
    assert slots(replace(queue, options={}))["Q"] == (8, 1500, 4000)


def test_generation_sees_the_slot_that_brokerage_has_chosen() -> None:
    queue = a_queue("U", capability="ucore", core_count=8, max_rss_mb=2000, max_work_dir_mb=20_001, options=PER_CORE)
    assert (facts(queue, "SCORE", 1).core_count, facts(queue, "SCORE", 1).max_rss_mb) == (1, 2000)
    assert facts(queue, "SCORE", 1).max_work_dir_mb == 20_001 / 8
    assert (facts(queue, "MCORE", 8).core_count, facts(queue, "MCORE", 8).max_rss_mb) == (8, 16_000)


def test_a_unified_queue_whose_task_decides_the_cores_has_a_row_of_every_type() -> None:
    queue = a_queue("U", capability="ucore", core_count=-1, max_rss_mb=32_000)
    assert {label: slot[0] for label, slot in slots(queue).items()} == {
        "U/SCORE": 1,
        "U/SCORE_HIMEM": 1,
        "U/MCORE": -1,
        "U/MCORE_HIMEM": -1,
    }


@pytest.mark.parametrize(
    ("cores", "ram_mb", "expected"),
    [(1, 2000, "U/SCORE"), (1, 4000, "U/SCORE_HIMEM"), (8, 2000, "U/MCORE"), (16, 1500, "U/MCORE"),
     (8, 3500, "U/MCORE_HIMEM")],
)  # fmt: skip
def test_it_takes_work_of_any_number_of_cores_in_the_row_of_its_type(cores: int, ram_mb: int, expected: str) -> None:
    queue = a_queue("U", capability="ucore", core_count=-1, max_rss_mb=32_000)
    assert chosen(queue, cores, ram_mb=ram_mb) == {expected}
    assert facts(queue, expected.partition("/")[2], cores).core_count == cores


def test_memory_for_each_core_is_that_of_the_tasks_cores_where_the_task_decides() -> None:
    queue = a_queue("Q", core_count=-1, max_rss_mb=2000, options=PER_CORE)
    assert chosen(queue, 8, ram_mb=2222) == {"Q"}
    assert chosen(queue, 8, ram_mb=2223) == set(), "8 x 2223 MB x 0.9 are more than 16000 MB"
    assert facts(queue, "MCORE", 8).max_rss_mb == 16_000
