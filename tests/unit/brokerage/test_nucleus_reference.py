"""The columns of nuclei against one nucleus at a time: every rule of task brokerage once more in plain Python."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings

from services.task_brokerage.policy.columns import build_nuclei
from services.task_brokerage.policy.filters import FILTERS
from services.task_brokerage.policy.production import ProductionTaskBrokerage
from shared.brokerage.nucleus import RemainingWork, TaskRequest
from shared.brokerage.request import InputDataset, InputReplica
from shared.model.link import Link
from shared.model.queue import QueueStatus
from shared.model.site import Site
from tests.unit.brokerage import draw
from tests.unit.brokerage.worlds import NOW, a_queue, a_request, a_storage, a_world

GB = 1024**3
NAMES = ("A", "B", "C")


@dataclass(frozen=True)
class Nucleus:
    """Everything that is known of one nucleus."""

    name: str
    state: str = "ACTIVE"
    bare: str = ""
    queued: int = 0
    has_storage: bool = True
    free_gb: float = 50_000.0
    expired_gb: float = 0.0
    write_wan: str = "ON"
    has_queue: bool = True
    total_work: float = 0.0
    work: float = 0.0
    disk_copy: tuple[int, int] = (0, 0)  # files, GB
    tape_copy: tuple[int, int] = (0, 0)


nuclei = draw.builds(
    Nucleus,
    name=draw.sampled_from(NAMES),
    state=draw.sampled_from(["ACTIVE", "ACTIVE", "DISABLED"]),
    bare=draw.sampled_from(["", "", "only", "allow"]),
    queued=draw.sampled_from([0, 2000, 2001]),
    has_storage=draw.sampled_from([True, True, True, False]),
    free_gb=draw.sampled_from([5000.0, 50_000.0]),
    expired_gb=draw.sampled_from([0.0, 121.0]),
    write_wan=draw.sampled_from(["ON", "ON", "OFF"]),
    has_queue=draw.sampled_from([True, True, True, False]),
    total_work=draw.sampled_from([0.0, 1e9, 2e11]),
    work=draw.sampled_from([0.0, 49.0, 1e6]),
    disk_copy=draw.sampled_from([(0, 0), (20, 1), (100, 30), (1000, 100)]),
    tape_copy=draw.sampled_from([(0, 0), (1000, 100)]),
)
tasks = draw.builds(
    lambda **values: TaskRequest(task_id=1, now=NOW, job=a_request(), **values),
    priority=draw.sampled_from([100, 800]),
    io_intensity_kb_s=draw.sampled_from([100.0, 201.0]),
    t1_weight=draw.sampled_from([0, -1]),
    local_on_master=draw.booleans(),
    input_pre_staging=draw.booleans(),
    full_chain=draw.sampled_from(["", "", "only", "require", "capable"]),
    parent_nucleus=draw.sampled_from([None, *NAMES]),
)


@dataclass(frozen=True)
class One:
    nucleus: Nucleus
    task: TaskRequest
    parent_bare: str

    @property
    def datasets(self) -> list[InputDataset]:
        return [one for one in self.task.inputs if one.is_master or not self.task.local_on_master]

    @property
    def total(self) -> tuple[int, int]:
        return sum(one.n_files for one in self.datasets), sum(one.n_bytes for one in self.datasets)

    @property
    def local(self) -> tuple[int, int]:
        """Files and bytes at the nucleus: of each dataset the larger copy."""
        files = size = 0
        for dataset in self.datasets:
            copies = [one for one in dataset.replicas if one.storage.startswith(self.nucleus.name) and one.n_files]
            best = max(copies, key=lambda one: (one.n_bytes, one.n_files), default=None)
            if best is not None:
                files, size = files + best.n_files, size + best.n_bytes
        return files, size

    @property
    def only_on_tape(self) -> bool:
        return self.nucleus.disk_copy < self.nucleus.tape_copy and bool(self.datasets)

    @property
    def staged(self) -> bool:
        return self.task.input_pre_staging and self.local[0] > 0


def full_chain(one: One) -> bool:
    if one.task.full_chain == "only":
        return one.nucleus.bare == "only"
    if one.task.full_chain == "require":
        return one.nucleus.bare in ("only", "allow")
    if one.task.full_chain == "capable" and one.parent_bare:
        return True
    return one.nucleus.bare != "only"


# In the order of the document.
RULES: dict[str, Callable[[One], bool]] = {
    "nucleus_active": lambda one: one.nucleus.state == "ACTIVE",
    "transfer_backlog": lambda one: one.task.t1_weight < 0 or one.nucleus.queued <= 2000,
    "nucleus_storage": lambda one: one.nucleus.has_storage,
    "nucleus_storage_works": lambda one: one.nucleus.has_storage and one.nucleus.write_wan == "ON",
    "nucleus_space": lambda one: (
        one.nucleus.has_storage
        and one.nucleus.free_gb + one.nucleus.expired_gb - one.nucleus.total_work / 10 / 86_400 * 0.25 > 5120
    ),
    "able_queue": lambda one: one.nucleus.has_queue and one.nucleus.has_storage,
    "input_size": lambda one: one.total[1] <= GB or one.staged or one.local[1] / one.total[1] > 0.1,
    "input_files": lambda one: one.total[0] <= 100 or one.staged or one.local[0] / one.total[0] > 0.1,
    "full_chain": full_chain,
    "parent_nucleus": lambda one: (
        one.task.full_chain != "capable" or not one.parent_bare or one.nucleus.name == one.task.parent_nucleus
    ),
}


def weight_of(one: One, passing: list[One]) -> float:
    size, total = one.nucleus.free_gb + one.nucleus.expired_gb, 102_400.0
    weight = size / total * (0.001 if one.only_on_tape else 1) / max(50.0, one.nucleus.work)
    if one.task.io_intensity_kb_s > 200 and any(other.local[1] > 0 for other in passing):
        weight *= one.local[1] / one.total[1]
    return weight


def inputs_of(found: list[Nucleus], *, master: bool) -> InputDataset:
    replicas = [
        InputReplica(f"{one.name}_{kind}", files, size * GB, is_tape=kind == "TAPE")
        for one in found
        for kind, (files, size) in (("DATADISK", one.disk_copy), ("TAPE", one.tape_copy))
        if files
    ]
    return InputDataset("master" if master else "other", 1000, 100 * GB, tuple(replicas), is_master=master)


def build(found: list[Nucleus]) -> Any:
    sites = [
        Site(
            one.name,
            one.state,
            is_nucleus=True,
            bare_nucleus=one.bare,
            default_storage=f"{one.name}_DATADISK" if one.has_storage else "",
        )
        for one in found
    ]
    storages = [a_storage(f"{one.name}_TAPE", one.name, type="DATATAPE", is_tape=True) for one in found]
    storages += [
        a_storage(
            f"{one.name}_DATADISK",
            one.name if one.has_storage else "ELSEWHERE",
            space_free_gb=one.free_gb,
            space_expired_gb=one.expired_gb,
            detailed_status={"write_wan": one.write_wan},
        )
        for one in found
    ]
    queues = [
        a_queue(
            f"Q_{one.name}",
            one.name,
            status=QueueStatus.ONLINE if one.has_queue else QueueStatus.OFFLINE,
            **({} if one.has_storage else {"write_storages": (), "read_storages": ()}),
        )
        for one in found
    ]
    links = [Link("FAR", one.name, queued_output=one.queued, queued_at=NOW) for one in found]
    return a_world(queues, sites=[*sites, Site("ELSEWHERE", "ACTIVE")], storages=storages, links=links)


def test_the_reference_has_every_check_in_its_order() -> None:
    assert [one.check.name for one in FILTERS] == list(RULES)


@settings(max_examples=300, deadline=None)
@given(
    draw.from_one_number(
        draw.lists(nuclei, min_size=1, max_size=3, unique_by=lambda one: one.name), tasks, draw.booleans()
    )
)
def test_columns_decide_as_one_nucleus_at_a_time(drawn) -> None:
    found, task, with_input = drawn
    # A storage that is not at its nucleus holds nothing for it.
    with_storage = [one for one in found if one.has_storage]
    inputs = (inputs_of(with_storage, master=True), inputs_of(with_storage, master=False)) if with_input else ()
    work = {one.name: RemainingWork(one.total_work, one.work) for one in found}
    task = TaskRequest(**{**task.__dict__, "inputs": inputs, "remaining_work": work})
    world, kinds = build(found), {one.name: one.bare for one in found}
    ones = {one.name: One(one, task, kinds.get(task.parent_nucleus or "", "")) for one in found}
    columns = build_nuclei(world, task)
    for check in FILTERS:
        verdict = check.decide(columns, task)
        for place, name in enumerate(columns.names):
            expected = RULES[check.check.name](ones[name])
            assert (verdict is None or bool(verdict.passes[place])) == expected, (check.check.name, name)
    names = list(RULES)
    if not any(all(rule(one) for rule in RULES.values()) for one in ones.values()):
        total = ones[found[0].name].total[1]
        if (task.io_intensity_kb_s <= 200 and total <= 10_000 * GB) or task.priority >= 800:
            names = [name for name in names if name not in ("input_size", "input_files")]
    decision = ProductionTaskBrokerage().decide(world, task, seed=1)
    passing = [one for one in ones.values() if all(RULES[rule](one) for rule in names)]
    for name, one in ones.items():
        why = decision.exclusion(name)
        assert (why[0].name if why else None) == next((rule for rule in names if not RULES[rule](one)), None)
        if why is None:
            assert decision.weights[decision.names.index(name)] == pytest.approx(weight_of(one, passing))
