"""What weights of queues and of nuclei are made from."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shared.brokerage.world import World

Real = NDArray[np.float64]

# Batch workers count as running jobs only up to this many: enough to start a queue that is empty.
BOOTSTRAP_WORKERS = 20


def running_number(world: World) -> Real:
    """The running number of each row, R: the largest of running jobs, workers and slots.

    Workers count as min(workers, 20) if fewer than 20 jobs run and there are more workers than running jobs; slots if
    they are set and positive; if slots are set to zero, the number of starting jobs counts.

    Why: a queue that has pilots but no running jobs yet would weigh as little as one without pilots. Example: 5 running
    jobs and 30 workers count as 20. Source: PanDA brokerage, weight calculation.
    """
    load = world.load
    running = load.running.astype(float)
    bootstrap = np.where(
        (running < BOOTSTRAP_WORKERS) & (load.n_workers > running), np.minimum(load.n_workers, BOOTSTRAP_WORKERS), 0
    )
    slots = np.where(load.n_slots > 0, load.n_slots, np.where(load.n_slots == 0, load["starting"], 0))
    return np.maximum(np.maximum(running, bootstrap), slots)


def product(factors: dict[str, Real]) -> Real:
    """The weight: all factors multiplied, in their order."""
    weight: Real | None = None
    for factor in factors.values():
        weight = factor if weight is None else weight * factor
    assert weight is not None
    return weight
