"""One job's estimates here are those that the brokerage makes for all queues at once."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from services.job_generation.splitting import limits
from shared.brokerage import estimates
from shared.task.needs import WorkNeeds

NEEDS = st.builds(
    WorkNeeds,
    ram_mb=st.integers(0, 10_000),
    ram_per_core=st.booleans(),
    base_ram_mb=st.integers(0, 5000),
    cpu_time_hs06_s_per_event=st.one_of(st.none(), st.floats(0.001, 1000)),
    cpu_efficiency=st.sampled_from([0.0, 0.5, 0.9, 1.0]),
    base_walltime_s=st.integers(0, 5000),
)


@given(NEEDS, st.integers(1, 64), st.integers(0, 10**6), st.sampled_from([0.0, 8.5, 20.0]))
def test_walltime_is_the_brokerages(needs: WorkNeeds, cores: int, n_events: int, power: float) -> None:
    [theirs] = estimates.walltime_s(needs, n_events, np.array([cores]), np.array([power]))
    ours = estimates.walltime_of_job_s(needs, n_events, cores, power)
    assert (ours is None) == bool(np.isnan(theirs))
    assert ours is None or ours == theirs


@given(NEEDS, st.integers(1, 64), st.booleans())
def test_memory_is_the_brokerages(needs: WorkNeeds, cores: int, is_merge: bool) -> None:
    [theirs] = estimates.ram_mb(needs, np.array([cores]), is_merge=is_merge)
    assert limits.ram_mb(needs, cores, is_merge=is_merge) == theirs
