"""A queue that brokerage ranks for a chunk can be given a job of it: both estimate the smallest job alike."""

from __future__ import annotations

import dataclasses
import math
from itertools import zip_longest
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.job_brokerage.policy.analysis import AnalysisJobBrokerage
from services.job_brokerage.policy.production import ProductionJobBrokerage
from services.job_brokerage.policy.request import job_request
from services.job_generation.kinds.merge.job import MERGE
from services.job_generation.policy.queue_facts import facts_of_candidates
from services.job_generation.policy.values import QueueFacts, Task, Unit
from services.job_generation.specification.kind_of_job import NORMAL
from services.job_generation.specification.requirements import requirement_of
from services.job_generation.splitting.limits import Totals, totals_of
from services.job_generation.splitting.placement import Placement
from services.job_generation.splitting.placing import place
from services.job_generation.splitting.secondary import Pool
from shared.brokerage.limits import JobLimits
from shared.brokerage.request import InputDataset, InputReplica
from shared.brokerage.smallest_job import SecondaryInput
from shared.events import QueueChoice
from shared.model.grid import Grid
from shared.model.queue import Queue
from shared.task.in_effect import rules_of
from shared.task.needs import needs_of_task
from tests.unit.brokerage.test_job_brokerage import ROW
from tests.unit.brokerage.worlds import NOW, a_queue, a_world
from tests.unit.job_generation.made import a_dataset, a_task

MB, GB = 1024**2, 1024**3
HERE = "SITE_DATADISK"


@dataclasses.dataclass(frozen=True)
class Input:
    """Files of one size and number of events (None: unknown), each in so many ranges; secondary files by ratio."""

    n_files: int = 4
    size_bytes: int = 0
    events: int | None = 100
    ranges: int = 1
    secondary_bytes: int = 0
    ratio: float = 0.0
    repeated: int = 0  # secondary files that are used again and again, instead of enough for each master file
    boundaries: tuple[int, ...] = ()  # files of each boundary; those after them have none

    @property
    def units(self) -> list[Unit]:
        ranges = 1 if self.events is None else self.ranges  # a file of unknown events is not cut
        of_range = None if self.events is None else self.events // ranges
        units = [
            Unit(file, f"f{file}", self.size_bytes, of_range, file_events=self.events)
            if ranges == 1 or of_range is None
            else Unit(
                file * ranges + part,
                f"f{file}",
                self.size_bytes,
                of_range,
                part * of_range,
                (part + 1) * of_range - 1,
                file_events=self.events,
            )
            for file in range(self.n_files)
            for part in range(ranges)
        ]
        held = [number for number, n_files in enumerate(self.boundaries, 1) for _ in range(n_files * ranges)]
        return [unit._replace(boundary_id=one) for unit, one in zip_longest(units, held[: len(units)])]

    @property
    def largest_boundary(self) -> dict[str, int] | None:
        held: dict[int, list[Unit]] = {}
        for unit in self.units:
            if unit.boundary_id is not None:
                held.setdefault(unit.boundary_id, []).append(unit)
        return {
            "n_files": max(map(len, held.values())), "n_boundaries": len(held),
            "n_events": max(sum(1 if unit.events is None else unit.events for unit in one) for one in held.values()),
            "n_bytes": max(len({unit.lfn for unit in one}) for one in held.values()) * self.size_bytes,
        } if held else None  # fmt: skip

    @property
    def n_secondary(self) -> int:
        return self.repeated or math.ceil(self.n_files * self.ranges * self.ratio) + 5

    @property
    def attributes(self) -> dict[str, Any]:
        return {"ratio": self.ratio, **({"repeat": True} if self.repeated else {})}

    @property
    def pools(self) -> list[Pool]:
        if not self.ratio:
            return []
        units = tuple(Unit(10_000 + n, f"s{n}", self.secondary_bytes, dataset_id=2) for n in range(self.n_secondary))
        return [Pool(a_dataset(2, master_id=1, attributes=self.attributes), units)]

    @property
    def secondary(self) -> tuple[SecondaryInput, ...]:
        if not self.ratio:
            return ()
        n_bytes = self.n_secondary * self.secondary_bytes
        return (SecondaryInput(self.n_secondary, n_bytes, 0, self.attributes),)


def ranked(row: dict[str, Any], queue: Queue, given: Input) -> list[tuple[str, str]]:
    """Queues and resource types that brokerage ranks for a chunk of this input."""
    n_bytes, units = given.n_files * given.size_bytes, given.units
    chunk = row | {
        "chunk_files": len(units), "chunk_events": sum(unit.events or 0 for unit in units), "chunk_bytes": n_bytes
    }  # fmt: skip
    if row["split_rule"].get("groupBoundaryID") in (3, 4):
        chunk["largest_boundary"] = given.largest_boundary
    inputs = (InputDataset("m", given.n_files, n_bytes, (InputReplica(HERE, given.n_files, n_bytes),)),)
    request = job_request(chunk, inputs, JobLimits(), NOW, secondary=given.secondary)
    policy = AnalysisJobBrokerage() if request.is_analysis else ProductionJobBrokerage()
    return [(one.queue, one.resource_type) for one in policy.decide(a_world([queue]), request, 1).candidates]


def generated(row: dict[str, Any], queue: Queue, resource_type: str, given: Input) -> tuple[QueueFacts, Placement]:
    """What generation makes of the same chunk at one ranked queue."""
    candidate = QueueChoice(queue=queue.name, resource_type=resource_type, weight=1.0, max_jobs=None)
    task = task_of(row)
    [facts] = facts_of_candidates(Grid({queue.name: queue}, {}, {}), task, [candidate], {})
    scout = row["kind"] == "scout"
    return facts, place(task, given.units, given.pools, [facts], scout=scout, max_jobs=10_000, seed=1)


def task_of(row: dict[str, Any]) -> Task:
    return dataclasses.replace(
        a_task(),
        needs=needs_of_task(row),
        rules=rules_of(row["split_rule"]),
        core_count=row["core_count"],
        task_type=row["task_type"],
    )


def a_row(**changes: Any) -> dict[str, Any]:
    """A task of one core that needs little and may go anywhere."""
    return {
        **ROW, "nucleus": None, "split_rule": {}, "core_count": 1, "ram_count": 1000, "cpu_time": 10,
        "cpu_time_unit": "HS06sPerEvent", "cpu_efficiency": 100, "base_walltime": 0, "resource_type": "SCORE",
        **changes,
    }  # fmt: skip


CASES = {
    "files_of_unknown_events": (
        a_row(split_rule={"nFilesPerJob": 50}, cpu_time=1000), {"max_time_s": 5000}, Input(50, events=None)
    ),
    "secondary_files": (
        a_row(split_rule={"nFilesPerJob": 1}), {"max_work_dir_mb": 5 * 1024 + 513},
        Input(size_bytes=1 * GB, secondary_bytes=2 * GB, ratio=2.0),
    ),
    "secondary_files_that_are_repeated": (
        a_row(split_rule={"nFilesPerJob": 50}), {"max_work_dir_mb": 70 * 1024 + 513},
        Input(50, size_bytes=1 * GB, secondary_bytes=10 * GB, ratio=1.0, repeated=2),
    ),
    "a_queue_that_leaves_the_cores_to_the_task": (
        a_row(core_count=8, cpu_time=800), {"core_count": -1, "max_time_s": 1000, "max_rss_mb": 16_000}, Input()
    ),
    "analysis_with_little_output": (
        a_row(task_type="anal"), {"max_work_dir_mb": 101}, Input(size_bytes=100 * MB)
    ),
    "a_part_of_a_work_directory": (
        a_row(), {"capability": "ucore", "core_count": 8, "max_work_dir_mb": 20_001, "max_rss_mb": 32_000},
        Input(size_bytes=1988 * MB + 100),
    ),
    "the_largest_boundary": (
        a_row(split_rule={"groupBoundaryID": 3, "nFilesPerJob": 1}), {"max_work_dir_mb": 5 * 1024 + 513},
        Input(8, size_bytes=1 * GB, boundaries=(1, 2, 5)),
    ),
    "ranges_of_events": (
        a_row(split_rule={"nEventsPerJob": 10}), {"max_work_dir_mb": 4 * 1024 + 513},
        Input(size_bytes=4 * GB, ranges=10),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_limit_of_a_queue_is_the_same_for_brokerage_and_for_generation(name: str) -> None:
    row, queue, given = CASES[name]
    fits = a_queue("Q", **queue)
    [(_, resource_type)] = ranked(row, fits, given) or [("", "")]
    assert resource_type, "ranked"
    placement = generated(row, fits, resource_type, given)[1]
    assert placement.jobs and not placement.leftover
    lower = {
        key: queue[key] - (16 if key == "max_work_dir_mb" else 1)
        for key in ("max_time_s", "max_work_dir_mb")
        if key in queue
    }
    tight = a_queue("Q", **{**queue, **lower})
    assert ranked(row, tight, given) == []
    assert generated(row, tight, resource_type, given)[1].reasons, "the first files fit no more"


def test_the_scratch_disk_asked_of_pilots_has_no_least_output_for_analysis() -> None:
    row, queue = a_row(task_type="anal"), a_queue("Q", max_work_dir_mb=101)
    facts, placement = generated(row, queue, "SCORE", Input(size_bytes=25 * MB))
    totals, roomy = totals_of(placement.jobs[0].job), dataclasses.replace(facts, max_work_dir_mb=0)
    assert requirement_of(task_of(row), facts, NORMAL, totals, None).disk_mb == 101
    assert requirement_of(task_of(row), roomy, NORMAL, totals, None).disk_mb == 1000
    large = totals._replace(input_bytes=500 * MB)
    assert requirement_of(task_of(row), roomy, NORMAL, large, None).disk_mb == 1000
    assert requirement_of(task_of(a_row()), roomy, NORMAL, large, None).disk_mb == 2000, "0.5 GB of output"


@pytest.mark.parametrize(("direct", "expected_mb"), [(True, 5000), (False, 10_000)])
def test_the_scratch_disk_asked_of_pilots_for_merging_is_what_the_queue_was_ranked_for(
    direct: bool, expected_mb: int
) -> None:
    """Input counts zero where it is read directly; a merge job's output is as large as its input."""
    queue = a_queue("Q", max_work_dir_mb=expected_mb + 1, direct_access_lan=direct)
    n_bytes = 5000 * MB
    row = a_row(kind="merge", chunk_queue="Q", chunk_files=1, chunk_events=0, chunk_bytes=n_bytes)
    inputs = (InputDataset("unmerged", 1, n_bytes),)
    for size_mb, fits in ((0, True), (-1, False)):
        world = a_world([dataclasses.replace(queue, max_work_dir_mb=expected_mb + 1 + size_mb)])
        decision = ProductionJobBrokerage().decide(world, job_request(row, inputs, JobLimits(), NOW), 1)
        assert bool(decision.chosen) == fits
    facts, _ = generated(row, queue, "SCORE", Input(1))
    totals = Totals(n_files=1, input_bytes=n_bytes, effective_bytes=n_bytes)
    assert requirement_of(task_of(row), facts, MERGE, totals, None).disk_mb == expected_mb


RULES = st.fixed_dictionaries(
    {},
    optional={
        "nFilesPerJob": st.integers(1, 60), "nEventsPerJob": st.integers(1, 500), "nGBPerJob": st.integers(1, 20),
        "nMaxFilesPerJob": st.integers(1, 30), "maxWalltime": st.integers(1, 24), "useLocalIO": st.booleans(),
        "tgtNumEventsPerJob": st.integers(1, 500), "maxEventsPerJob": st.integers(1, 500),
        "tgtMaxOutputForNG": st.integers(1, 10), "dynamicNumEvents": st.sampled_from([10, 250]),
        "groupBoundaryID": st.sampled_from([3, 4]),
    },
)  # fmt: skip
ROWS = st.builds(
    a_row,
    split_rule=RULES,
    kind=st.sampled_from(["normal", "scout"]),
    task_type=st.sampled_from(["prod", "anal"]),
    core_count=st.sampled_from([0, 1, 8]),
    ram_count=st.sampled_from([500, 2000, 3000]),
    ram_unit=st.sampled_from(["MB", "MBPerCore"]),
    out_disk_count=st.sampled_from([0, 100, 2000]),
    out_disk_unit=st.sampled_from(["kB", "kBPerEvent"]),
    work_disk_count=st.sampled_from([0, 300]),
    work_disk_unit=st.just("MB"),
    cpu_time=st.sampled_from([None, 1, 37, 900, 20_000]),
    cpu_efficiency=st.sampled_from([0, 70, 90]),
    base_walltime=st.sampled_from([0, 600, 7000]),
)
SEVERAL = st.builds(
    Input,
    n_files=st.integers(1, 60),
    size_bytes=st.sampled_from([0, 7 * MB + 3, GB, 5 * GB]),
    events=st.sampled_from([None, 20, 1000]),
    ranges=st.sampled_from([1, 1, 4, 10]),
    secondary_bytes=st.sampled_from([0, 300 * MB, 3 * GB]),
    ratio=st.sampled_from([0.0, 0.3, 1.0, 2.0]),
    repeated=st.sampled_from([0, 0, 1, 3]),
    boundaries=st.lists(st.integers(1, 20), max_size=6).map(tuple),
)
QUEUES = st.builds(
    a_queue,
    st.just("Q"),
    capability=st.sampled_from(["score", "mcore", "ucore"]),
    core_count=st.sampled_from([-1, 0, 1, 8, 12]),
    core_power_hs06=st.sampled_from([0.0, 8.5, 11.7]),
    min_time_s=st.sampled_from([0, 0, 900]),
    max_time_s=st.sampled_from([0, 3600, 90_000, 345_600]),
    max_rss_mb=st.sampled_from([0, 2000, 16_000, 64_000]),
    max_work_dir_mb=st.sampled_from([0, 1500, 5001, 20_003, 160_001]),
    direct_access_lan=st.booleans(),
    options=st.sampled_from([{}, {"per_core_attr": "true"}]),
)


@settings(max_examples=600, deadline=None)
@given(ROWS, QUEUES, SEVERAL)
def test_every_ranked_queue_can_be_given_a_job(row: dict[str, Any], queue: Queue, given: Input) -> None:
    """Of files of one size: of different ones brokerage knows the mean only."""
    for _, resource_type in ranked(row, queue, given):
        facts, placement = generated(row, queue, resource_type, given)
        assert placement.jobs, (facts, placement.reasons[:1])
