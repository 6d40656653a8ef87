"""The world of a world file: the same value that a live service holds in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from shared.brokerage.load import Activity, JobCount, Load
from shared.brokerage.matchmaking import Advert
from shared.brokerage.nucleus import RemainingWork
from shared.brokerage.usage import UsageRows, level_1_of_shares, percent_of_shares
from shared.brokerage.world import World
from shared.model.grid import parse_grid
from shared.model.share import Share
from shared.model.world_file import SignsOfLife, Workers, WorldFile
from shared.states.job import JobStatus


def world_of(file: WorldFile) -> World:
    """Columns, links and load. Raises InvalidGrid with everything that is wrong with its grid."""
    world = World.of(parse_grid(file.grid_files()), version=file.version, taken_at=file.now)
    # A count below nothing is an event that came too early, and is none: as in the statistics' own reading.
    by_state = Counter[tuple[str, str, JobStatus, str]]()
    for row in file.statistics:
        by_state[row.queue, row.resource_type, row.status, row.vo] += row.n_jobs
    counts = [
        JobCount(queue, resource_type, status, n_jobs, vo)
        for (queue, resource_type, status, vo), n_jobs in sorted(by_state.items())
        if n_jobs > 0
    ]
    activities = [
        _activity(queue, file.pilots.get(queue, SignsOfLife()), file.workers.get(queue, Workers()))
        for queue in sorted(file.pilots.keys() | file.workers.keys())
    ]
    return world.with_load(Load.of(world.columns, counts, activities))


def _activity(queue: str, signs: SignsOfLife, workers: Workers) -> Activity:
    return Activity(
        queue,
        signs.last_pilot_at,
        signs.last_job_start_at,
        workers.running,
        workers.submitted,
        workers.n_slots,
        signs.mean_disk_io_kb_s_per_core,
        signs.known_since,
        workers.slots_of_type,
    )


def usage_of(file: WorldFile, shares: Iterable[Share]) -> UsageRows:
    """Who uses how much."""
    tree = [(one.name, one.value, one.parent) for one in shares]
    return UsageRows(
        file.statistics,
        file.history,
        percent_of_shares(tree),
        level_1_of_shares(tree),
        file.user_usage,
        file.group_usage,
        {(one.user_name, one.vo): one for one in file.user_usage_of_vos},
        {(one.working_group, one.vo): one for one in file.group_usage_of_vos},
    )


def adverts_of(file: WorldFile) -> tuple[Advert, ...]:
    """Advertisements that have not expired."""
    return tuple(Advert.of(one.model_dump()) for one in file.site_adverts if one.expires_at > file.now)


def remaining_work_of(file: WorldFile, priority: int) -> dict[str, RemainingWork]:
    """RW of each nucleus, in total and of tasks with at least a priority."""
    found: dict[str, RemainingWork] = {}
    for row in file.nucleus_remaining_work:
        before = found.get(row.nucleus, RemainingWork())
        counted = row.hs06_s if row.priority >= priority else 0.0
        found[row.nucleus] = RemainingWork(before.total_hs06_s + row.hs06_s, before.at_least_priority_hs06_s + counted)
    return found
