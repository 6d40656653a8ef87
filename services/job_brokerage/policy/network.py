"""Network weight of the links from the queues to the nucleus (PanDA brokerage: network weight).

weight = I x queuedWeight + (1 - I) x throughputWeight, with I one half unless configured otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from shared.brokerage.request import JobRequest
from shared.brokerage.world import FRESH_S, LinkRows, World
from shared.model.link import MAX_CLOSENESS, MIN_CLOSENESS

Real = NDArray[np.float64]

# Throughput above the first number has the second as its weight; the largest that applies counts.
THROUGHPUT_STEPS = (
    (1.0, 1.1), (2.0, 1.2), (10.0, 1.3), (20.0, 1.5), (50.0, 1.7), (75.0, 1.8), (100.0, 1.9), (200.0, 2.0),
)  # fmt: skip
# The nucleus itself is a quarter better than the best link.
SAME_SITE = 2.5
# A link of unknown closeness is treated as rather far.
UNKNOWN_CLOSENESS = MAX_CLOSENESS * 0.7
_THRESHOLDS = np.array([step[0] for step in THROUGHPUT_STEPS])
_WEIGHTS = np.array([1.0, *(step[1] for step in THROUGHPUT_STEPS)])


def throughput_weight(mbps: Real, closeness: Real) -> Real:
    """By the step table; without a measurement 1 + (MAX - closeness) / (MAX - MIN)."""
    near = np.where(np.isnan(closeness), UNKNOWN_CLOSENESS, closeness)
    by_closeness = 1 + (MAX_CLOSENESS - near) / (MAX_CLOSENESS - MIN_CLOSENESS)
    steps = _WEIGHTS[np.searchsorted(_THRESHOLDS, np.nan_to_num(mbps, nan=0.0), side="left")]
    return np.where(np.isnan(mbps), by_closeness, steps)


def queued_weight(queued_files: Real, cap: int) -> Real:
    """2 - queued / cap, kept between 1 and 2; nothing known counts as nothing queued."""
    return np.clip(2 - np.nan_to_num(queued_files, nan=0.0) / cap, 1.0, 2.0)


@dataclass(frozen=True)
class NetworkWeight:
    """By row: the weight and its two parts."""

    weight: Real
    queued: Real
    throughput: Real


def fresh_queued(links: LinkRows, now: datetime, *, express: bool) -> Real:
    """Files queued on each link for the output's activity; NaN where the count is too old."""
    queued = links.queued_express if express else links.queued_output
    return np.where(now.timestamp() - links.queued_at_s <= FRESH_S, queued, np.nan)


def fresh_mbps(links: LinkRows, now: datetime) -> Real:
    """Throughput of each link; NaN where it was measured too long ago, so that closeness counts."""
    return np.where(now.timestamp() - links.mbps_at_s <= FRESH_S, links.mbps, np.nan)


def network_weight(world: World, request: JobRequest) -> NetworkWeight | None:
    """The weight of every row's link to the request's nucleus; None without a nucleus."""
    if not request.nucleus:
        return None
    links = world.links_to(request.nucleus)
    queued = queued_weight(
        fresh_queued(links, request.now, express=request.is_urgent), request.limits.queued_files_of_link_cap
    )
    throughput = throughput_weight(fresh_mbps(links, request.now), links.closeness)
    queued = np.where(links.same_site, SAME_SITE, queued)
    throughput = np.where(links.same_site, SAME_SITE, throughput)
    importance = request.limits.network_queue_importance
    return NetworkWeight(importance * queued + (1 - importance) * throughput, queued, throughput)
