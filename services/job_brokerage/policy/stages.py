"""Stages that every job brokerage shares: rank what is left, and conclude with an explained decision."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import numpy as np
from numpy.typing import NDArray

from services.job_brokerage.policy.adverts import match_sites
from shared.brokerage.decision import Candidate, Decision
from shared.brokerage.pipeline import Exclusions
from shared.brokerage.request import JobRequest
from shared.brokerage.weights import product
from shared.brokerage.world import World

Real = NDArray[np.float64]


def best_rows(world: World, alive: NDArray[np.bool_], weights: Real, limit: int) -> list[int]:
    """Rows of the largest weights, best first; equal weights by name, so that the order is never random."""
    rows = np.flatnonzero(alive)
    order = sorted(rows, key=lambda row: (-weights[row], world.columns.labels[row]))
    return [int(row) for row in order[:limit]]


def candidate_of(world: World, request: JobRequest, row: int, weight: float) -> Candidate:
    """A row as a candidate: a pseudo-queue brings its resource type, any other queue takes the task's."""
    resource_type = world.columns.resource_types[row] or request.resource_type
    return Candidate(world.columns.queues[row].name, resource_type, weight)


def conclude(
    plugin: str,
    world: World,
    request: JobRequest,
    seed: int,
    exclusions: Exclusions,
    factors: Mapping[str, Real],
    notes: tuple[str, ...] = (),
) -> Decision:
    """The decision: the best rows by the product of the factors; if none, the time of the next try.

    Advertisements are asked first.

    Production looks again after an hour, analysis after 20 minutes (runtime parameters); where a site's advertisement
    stands in the way, when the site will have advertised again.
    """
    advertises_again_at = match_sites(world, request, exclusions, seed)
    alive = exclusions.alive
    weights = np.where(alive, product(dict(factors)), 0.0)
    best = best_rows(world, alive, weights, request.limits.candidates)
    limits = request.limits
    wait_s = limits.retry_analysis_s if request.is_analysis else limits.retry_production_s
    retry_at = request.now + timedelta(seconds=wait_s)
    if advertises_again_at is not None:
        retry_at = min(retry_at, advertises_again_at)
    return Decision(
        kind="job",
        task_id=request.task_id,
        chunk_id=request.chunk_id,
        plugin=plugin,
        seed=seed,
        world_version=world.version,
        decided_at=request.now,
        names=world.columns.labels,
        codes=exclusions.codes,
        found=exclusions.found,
        wanted=exclusions.wanted,
        weights=weights,
        checks=exclusions.checks,
        chosen=tuple(world.columns.labels[row] for row in best),
        candidates=tuple(candidate_of(world, request, row, float(weights[row])) for row in best),
        terms={name: np.where(alive, factor, np.nan) for name, factor in factors.items()},
        retry_at=None if best else retry_at,
        notes=notes,
        queue_index=world.columns.queue_index,
    )
