"""The same task decision with nothing but numpy: every comparison once, in place, no reasons, no numbers kept.

What the brokerage costs above this is the price of its explanations. Checks that cannot apply to the benchmark's tasks
(direct access, event service, ...) are left out here, which makes the limit harder.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shared.brokerage.draw import uniform_of
from shared.brokerage.nucleus import TaskRequest
from shared.brokerage.software import Lack
from shared.brokerage.world import World
from shared.brokerage.zero_share import work_of

MB = 1024**2
PRODUCTION, UNIFIED, ONLINE, STANDBY = 0, 2, 0, 1


def able_rows(world: World, request: TaskRequest) -> NDArray[np.bool_]:
    """Rows that could ever run the task's scouts."""
    c, job, needs = world.columns, request.job, request.job.needs
    ok = (c.type == PRODUCTION) | (c.type == UNIFIED)
    ok &= ~c.is_test
    ok &= (c.status == ONLINE) | ((c.status == STANDBY) & (world.load.n_slots > 0))
    work = work_of(job.processing_type, job.working_group, job.gshare, job.priority)
    ok &= np.array([one.turns_away(work) == 0 for one in c.zero_share], bool)[c.zero_share_index]
    ok &= ((c.core_count > 1) | (c.core_count == -1)) if needs.core_count > 1 else c.core_count <= 1
    ok &= world.lacks(job.software).rows == Lack.NOTHING
    cores = np.where(c.core_count > 0, c.core_count, max(1, needs.core_count))
    ram_mb = np.floor((needs.base_ram_mb + needs.ram_mb * cores) * 0.9)
    ok &= (c.max_rss_mb == 0) | (ram_mb <= c.max_rss_mb)
    ok &= ram_mb >= c.min_rss_mb
    output = max(512 * MB, needs.output_bytes_per_event * job.job.n_events)
    disk_mb = (np.where(c.direct_access, 0.0, float(job.job.input_bytes)) + output + needs.work_dir_bytes) / MB
    ok &= (c.work_dir_mb == 0) | (disk_mb <= c.work_dir_mb)
    ok &= (c.max_time_s == 0) | (c.max_time_s >= 86_400)
    power = np.where(c.core_power_hs06 > 0, c.core_power_hs06, 10.0)
    seconds = (needs.cpu_time_hs06_s_per_event or 0.0) * job.job.n_events
    walltime_s = seconds / (cores * power * needs.cpu_efficiency) + needs.base_walltime_s
    ok &= (c.max_time_s == 0) | (walltime_s <= c.max_time_s)
    ok &= walltime_s >= c.min_time_s
    if needs.connectivity:
        ok &= c.connectivity <= ("full", "http", "none").index(needs.connectivity)
    ok &= ~np.isnan(world.production_output.usable_gb)
    return ok


def bare_decision(world: World, request: TaskRequest, seed: int) -> str | None:
    """The nucleus, by the same rules and the same draw."""
    facts, limits = world.nucleus_facts, request.limits
    able = able_rows(world, request)
    (dataset,) = request.inputs
    local = np.zeros(len(facts.names))
    files = np.zeros(len(facts.names))
    for replica in dataset.replicas:
        local[facts.of_storage[replica.storage]] = replica.n_bytes
        files[facts.of_storage[replica.storage]] = replica.n_files
    work = [request.remaining_work[name] for name in facts.names]
    rest = facts.space_free_gb - np.array([one.total_hs06_s for one in work]) / 10 / 86_400 * 0.25
    ok = facts.active & facts.writable & (facts.bare != 1)
    ok &= ~(np.array([world.queued_to(name, request.now) for name in facts.names]) > limits.queued_files_of_nucleus_cap)
    ok &= rest > limits.disk_threshold_gb
    ok &= facts.queues(able) >= 1
    with_data = ok & (local / dataset.n_bytes > limits.input_size_fraction)
    with_data &= files / dataset.n_files > limits.input_files_fraction
    heavy = request.io_intensity_kb_s > limits.min_io_intensity_with_local_data_kb_s
    if with_data.any() or (heavy and request.priority < limits.max_priority_with_local_data):
        ok = with_data
    weights = facts.space_free_gb / facts.space_total_gb
    weights = weights / np.maximum(50.0, np.array([one.at_least_priority_hs06_s for one in work]))
    if heavy:
        weights = weights * local / dataset.n_bytes
    weights = np.where(ok, weights, 0.0)
    if not ok.any():
        return None
    if weights.sum() <= 0:
        places = np.flatnonzero(ok)
        return facts.names[places[int(uniform_of(seed) * len(places))]]
    return facts.names[int(np.searchsorted(np.cumsum(weights), uniform_of(seed) * weights.sum(), side="right"))]
