"""Jobs whose ends are known without trying are those that are found by trying."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.job_generation.policy.values import Unit
from services.job_generation.splitting.cutting import Cutter
from services.job_generation.splitting.placing import place
from shared.task.needs import WorkNeeds
from tests.unit.job_generation.made import a_queue, a_task

RULES: list[dict[str, Any]] = [
    {"nFilesPerJob": 1},
    {"nFilesPerJob": 3},
    {"nEventsPerJob": 25},
    {"nMaxFilesPerJob": 4},
    {"nGBPerJob": 1},
    {"nFilesPerJob": 2, "nEventsPerJob": 15},
]


@given(
    rule=st.sampled_from(RULES),
    files=st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 30) | st.none()), max_size=30),
    max_jobs=st.integers(1, 12),
    disk=st.sampled_from([0, 500, 14_000]),
    seed=st.integers(0, 5),
    more=st.booleans(),
)
def test_jobs_with_known_ends_are_those_that_are_cut_one_by_one(
    rule: dict[str, Any], files: list[tuple[int, int | None]], max_jobs: int, disk: int, seed: int, more: bool
) -> None:
    task = a_task(rule, needs=WorkNeeds(cpu_time_hs06_s_per_event=10))
    units = [Unit(number, f"f{number}", size, events) for number, (size, events) in enumerate(files)]
    queues = [a_queue("A", max_work_dir_mb=disk, max_time_s=600, core_power_hs06=1.0), a_queue("B", max_jobs=2)]

    def placed() -> Any:
        return place(task, units, (), queues, scout=False, max_jobs=max_jobs, seed=seed, more_follows=more)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Cutter, "known_ends", lambda self, position, n_jobs: ())
        one_by_one = placed()
    assert placed() == one_by_one
