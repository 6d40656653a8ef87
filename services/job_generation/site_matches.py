"""Jobs created for sites that advertise themselves count as matched, across all replicas, and no more than they take.

A site's match is one job created for it (SAM-Grid): CurMatches is raised in the transaction that inserts the jobs.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from services.job_generation.policy.placing import Placement
from services.job_generation.policy.values import Task
from services.job_generation.sql import QUERIES
from shared.brokerage.matchmaking import Advert, job_ad, room
from shared.db.unit_of_work import UnitOfWork

# How often a count that others changed meanwhile is read again before the jobs are left for the next chunk.
MOST_TRIES = 20


async def take_matches(work: UnitOfWork, task: Task, placement: Placement) -> None:
    """Count the placed jobs at their sites; what does not fit goes from the placement's jobs to its leftover."""
    wanted = Counter(placed.queue.site for placed in placement.jobs)
    if not wanted:
        return
    for row in await QUERIES.rows(work.connection, "adverts_of_sites", sites=sorted(wanted)):
        site = row["site"]
        taken = await _count(work, row, ad_of(task), wanted[site])
        if taken < wanted[site]:
            _leave_out(placement, site, wanted[site] - taken)


def ad_of(task: Task) -> Any:
    """What the site's Requirements may ask of the task's jobs; the task's own were asked by brokerage."""
    return job_ad({
        "Owner": task.user_name, "TaskId": task.task_id, "VO": task.vo, "ProdSourceLabel": task.prod_source_label,
        "GShare": task.gshare, "JobPrio": task.priority,
    })  # fmt: skip


async def _count(work: UnitOfWork, row: Any, job: Any, wanted: int) -> int:
    """How many jobs the site takes now; they are counted when this returns."""
    for _ in range(MOST_TRIES):
        taken = room(Advert.of(row), job, wanted)
        if not taken:
            return 0
        counted = await QUERIES.rows(
            work.connection, "count_matches", site=row["site"], n_jobs=taken, seen=row["current_matches"],
            advertised_at=row["advertised_at"],
        )  # fmt: skip
        if counted:
            return taken
        again = await QUERIES.rows(work.connection, "adverts_of_sites", sites=[row["site"]])
        if not again:
            return wanted  # it expired meanwhile: nothing is known of the site any more
        row = again[0]
    return 0


def _leave_out(placement: Placement, site: str, surplus: int) -> None:
    """The last jobs of the site are not made; their input is left over."""
    kept = []
    for placed in reversed(placement.jobs):
        if placed.queue.site == site and surplus > 0:
            surplus -= 1
            placement.leftover.extend(placed.job.master)
        else:
            kept.append(placed)
    placement.jobs[:] = reversed(kept)
    placement.leftover.sort(key=lambda unit: unit.file_id)
    placement.reasons.append(f"site {site} takes no more jobs by its advertisement")
