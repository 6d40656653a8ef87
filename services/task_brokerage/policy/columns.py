"""Nuclei as columns for one task: facts of the grid, the task's data, and the work of the nuclei."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shared.brokerage.ability import ABILITY
from shared.brokerage.nucleus import RemainingWork, TaskRequest
from shared.brokerage.world import World
from shared.model.units import GB_BYTES

Real = NDArray[np.float64]
Flags = NDArray[np.bool_]

# Output that existing work will still produce: a quarter of a GB for each day of a core of power 10.
OUTPUT_GB_PER_CORE_DAY = 0.25
NOMINAL_CORE_POWER_HS06 = 10.0
DAY_S = 86400.0


@dataclass(frozen=True)
class NucleusColumns:
    """Sizes in GB (input in bytes).

    `space` is NaN for a nucleus without storage; `backlog` NaN if nothing is known. `only_on_tape`: some of the local
    input is.
    """

    names: tuple[str, ...]
    active: Flags
    bare: NDArray[np.int64]
    backlog_files: Real
    space_free_gb: Real
    space_total_gb: Real
    writable: Flags
    work_output_gb: Real
    work_hs06_s: Real
    able_queues: Real
    local_bytes: Real
    local_files: Real
    only_on_tape: Flags


def expected_output_gb(remaining_work_hs06_s: float) -> float:
    """normalizedExpOutSize x RW: the space that the work of a nucleus will still fill."""
    return remaining_work_hs06_s / NOMINAL_CORE_POWER_HS06 / DAY_S * OUTPUT_GB_PER_CORE_DAY


def _local(world: World, request: TaskRequest) -> tuple[Real, Real, Flags]:
    """Bytes and files of the input at each nucleus, and whether any of these bytes are on tape only.

    The best copy of each dataset counts, on disk or tape. Bytes are on tape only where the best copy on tape has more
    of a dataset than the best on disk.
    """
    facts = world.nucleus_facts
    n_nuclei = len(facts.names)
    local_bytes, local_files, tape = np.zeros(n_nuclei), np.zeros(n_nuclei), np.zeros(n_nuclei, bool)
    for dataset in request.inputs_for_locality:
        best: dict[int, tuple[int, int]] = {}
        on_disk: dict[int, tuple[int, int]] = {}
        for replica in dataset.replicas:
            place = facts.of_storage.get(replica.storage)
            if place is None or replica.n_files <= 0:
                continue
            copy = (min(replica.n_bytes, dataset.n_bytes), min(replica.n_files, dataset.n_files))
            best[place] = max(best.get(place, (0, 0)), copy)
            if not replica.is_tape:
                on_disk[place] = max(on_disk.get(place, (0, 0)), copy)
        for place, (size, files) in best.items():
            local_bytes[place] += size
            local_files[place] += files
            tape[place] |= on_disk.get(place, (0, 0)) < (size, files)
    return local_bytes, local_files, tape


def build_nuclei(world: World, request: TaskRequest) -> NucleusColumns:
    """The columns of all nuclei for one task."""
    facts = world.nucleus_facts
    work = [request.remaining_work.get(name, RemainingWork()) for name in facts.names]
    local_bytes, local_files, on_tape = _local(world, request)
    able = ABILITY.run(world, request.job, persistent_only=True).alive
    return NucleusColumns(
        names=facts.names,
        active=facts.active,
        bare=facts.bare,
        backlog_files=np.array([world.queued_to(name, request.now) for name in facts.names], np.float64),
        space_free_gb=facts.space_free_gb,
        space_total_gb=facts.space_total_gb,
        writable=facts.writable,
        work_output_gb=np.array([expected_output_gb(one.total_hs06_s) for one in work], np.float64),
        work_hs06_s=np.array([one.at_least_priority_hs06_s for one in work], np.float64),
        able_queues=facts.queues(able),
        local_bytes=local_bytes,
        local_files=local_files,
        only_on_tape=on_tape,
    )


def input_gb(request: TaskRequest) -> float:
    """Total size of the inputs that count for locality."""
    return sum(one.n_bytes for one in request.inputs_for_locality) / GB_BYTES
