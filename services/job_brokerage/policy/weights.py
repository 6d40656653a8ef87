"""Factors of a queue's weight.

Source: PanDA brokerage, production and analysis job brokerage, weight calculation.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shared.brokerage.request import JobRequest, LocalData
from shared.brokerage.weights import running_number
from shared.brokerage.world import World

Real = NDArray[np.float64]

QUEUE_OFFSET = 10


def many_assigned(world: World, all_local: NDArray[np.bool_]) -> Real:
    """max(1, min(2, (assigned + 1) / (activated + 1))); 1 where the input is at hand: nothing blocks it.

    The document has assigned / activated; one is added to both so that an empty queue has a value. Why: where
    many jobs wait for their input, further ones would wait for the same links.
    Example: 7 assigned and 3 activated jobs give 8 / 4 = 2.
    Source: PanDA brokerage, weight calculation.
    """
    ratio = (world.load["assigned"] + 1) / (world.load["activated"] + 1)
    return np.where(all_local, 1.0, np.clip(ratio, 1.0, 2.0))


def production_basic(world: World, all_local: NDArray[np.bool_]) -> dict[str, Real]:
    """(running + 1) / ((activated + assigned + starting + defined + 10) x manyAssigned), as its factors.

    Assigned jobs are not counted where the input is at hand. Why: a queue that runs much and has little waiting starts
    new jobs soonest. Example: 9 running and 30 queued jobs with manyAssigned 2 give 10 / (40 x 2) = 0.125.
    Source: PanDA brokerage, weight calculation.
    """
    queued = world.load.queued - np.where(all_local, world.load["assigned"], 0)
    return {
        "running": running_number(world) + 1,
        "queued": 1 / (queued + QUEUE_OFFSET),
        "many_assigned": 1 / many_assigned(world, all_local),
    }


def analysis_basic(world: World) -> dict[str, Real]:
    """The basic weight: (running + 1) / (activated + assigned + starting + defined + 1), as factors.

    Why: a queue that runs much and has little waiting starts new jobs soonest. Example: 9 running and 4 queued jobs
    give 10 / 5 = 2. Source: PanDA brokerage, weight calculation of analysis.
    """
    return {"running": running_number(world) + 1, "queued": 1 / (world.load.queued + 1.0)}


# At and above this IO intensity (kB/s) a task without t1Weight uses the cloud's weight; at and above this priority its
# weight is at least 100 (JEDI: T1 weight).
T1_IO_INTENSITY_KB_S, T1_PRIORITY, T1_PRIORITY_WEIGHT = 500.0, 900, 100


def t1_weight(request: JobRequest) -> float:
    """How much more the nucleus's queues weigh.

    t1Weight 0 or unset at high ioIntensity: the cloud's weight.
    """
    weight = float(max(0, request.t1_weight))
    if request.t1_weight == 0 and request.needs.io_intensity_kb_s >= T1_IO_INTENSITY_KB_S:
        weight = request.limits.cloud_weight
    if request.priority >= T1_PRIORITY and not request.is_merge:
        weight = max(weight, T1_PRIORITY_WEIGHT)
    return max(1.0, weight)


def nucleus_factor(world: World, request: JobRequest) -> Real:
    """The T1 weight at the queues of the nucleus, 1 elsewhere."""
    weight = t1_weight(request)
    if not request.nucleus or weight == 1.0:
        return np.ones(len(world.columns))
    return np.where(world.columns.at_site(request.nucleus), weight, 1.0)


def data_availability(request: JobRequest, local: LocalData) -> Real:
    """(available + total) / (total x (missing files / 100 + 1)); 1 for work without input.

    Why: each missing file must be moved before its job can start. Example: half of the bytes at hand and 100 files
    missing give 1.5 / 2 = 0.75. Source: PanDA brokerage, weight calculation.
    """
    total = float(request.input_bytes)
    if total <= 0:
        return np.ones(len(local.available_bytes))
    return (local.available_bytes + total) / (total * (local.missing_files / 100 + 1))
