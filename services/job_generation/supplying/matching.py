"""Counts jobs created for sites that advertise themselves as matched, and no more than they take.

The count holds across all replicas.

A site's match is one job created for it (SAM-Grid), whatever its kind: CurMatches is raised in the transaction that
inserts the jobs. Each job is asked about with its own cores and memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from services.job_generation.policy.values import PlacedJob, Task
from services.job_generation.specification.kind_of_job import NORMAL, KindOfJob
from services.job_generation.specification.requirements import Requirement, requirement_of
from services.job_generation.splitting.limits import totals_of
from services.job_generation.splitting.placement import Placement
from services.job_generation.store.site_matches import SQL
from shared.brokerage.matchmaking import Advert, JobFacts, accepted, refusal
from shared.db.unit_of_work import UnitOfWork

# How often a count that others changed meanwhile is read again before the jobs are left for the next chunk.
MOST_TRIES = 20
# What generation calls the share of a task that has none.
NO_SHARE = "Undefined"


async def take_matches(work: UnitOfWork, task: Task, placement: Placement, kind: KindOfJob = NORMAL) -> datetime | None:
    """Count the placed jobs at their sites; what does not fit becomes leftover, with the reason.

    `jobs` are of one kind of chunk. Nothing is counted for a site without an advertisement. Returns, when something was
    left over, when the first of these sites will have advertised again, or is not believed any more.
    """
    sites = sorted({placed.queue.site for placed in placement.jobs})
    rows: list[Any] = await SQL.rows(work.connection, "adverts_of_sites", sites=sites) if sites else []
    if not rows:
        return None
    stated = await SQL.value(work.connection, "requirements_of_task", task_id=task.task_id)
    again: list[datetime] = []
    for row in rows:
        at_site = [placed for placed in placement.jobs if placed.queue.site == row["site"]]
        answers = await _count(work, row, jobs_of(task, stated or "", kind, at_site))
        refused = [placed for placed, taken in zip(at_site, answers, strict=True) if not taken]
        if refused:
            again.append(row["expires_at"])
            _leave_out(placement, refused)
            [first] = jobs_of(task, stated or "", kind, refused[:1])
            placement.reasons.append(_reason(Advert.of(row), len(refused), sum(answers), first))
    return min(again, default=None)


async def take_more(work: UnitOfWork, task: Task, jobs: Sequence[Sequence[PlacedJob]]) -> list[list[PlacedJob]]:
    """Jobs of each input, without those that their sites do not take.

    The first of each was counted before.
    """
    more = Placement([one for of_input in jobs for one in of_input[1:]])
    await take_matches(work, task, more)
    taken = {id(one) for one in more.jobs}
    return [[of_input[0], *(one for one in of_input[1:] if id(one) in taken)] for of_input in jobs]


def jobs_of(task: Task, requirements: str, kind: KindOfJob, placed: Sequence[PlacedJob]) -> list[JobFacts]:
    """What the site's Requirements may ask of each of these jobs, and the task's own about the site."""
    known: dict[tuple[str, int | None], Requirement] = {}
    jobs = []
    for one in placed:
        raised = max((unit.ram_mb or 0 for unit in one.job.master), default=0) or None
        needed = known.get((one.queue.key, raised))
        if needed is None:  # cores and memory depend on nothing else
            needed = requirement_of(task, one.queue, kind, totals_of(one.job), raised)
            known[one.queue.key, raised] = needed
        jobs.append(facts_of(task, requirements, core_count=needed.core_count, ram_mb=needed.ram_mb))
    return jobs


def facts_of(task: Task, requirements: str, *, core_count: int, ram_mb: int) -> JobFacts:
    """One job of a task."""
    return JobFacts(
        task.task_id,
        task.user_name,
        task.priority,
        core_count,
        ram_mb,
        task.prod_source_label,
        task.vo or "",
        task.processing_type or "",
        task.working_group or "",
        "" if task.gshare == NO_SHARE else task.gshare,
        requirements,
    )


async def _count(work: UnitOfWork, row: Any, jobs: Sequence[JobFacts]) -> list[bool]:
    """Which of the jobs the site takes now; they are counted when this returns."""
    none, everything = [False] * len(jobs), [True] * len(jobs)
    for _ in range(MOST_TRIES):
        answers = accepted(Advert.of(row), jobs)
        if not any(answers):
            return none
        counted = await SQL.rows(
            work.connection,
            "count_matches",
            site=row["site"],
            n_jobs=sum(answers),
            seen=row["current_matches"],
            advertised_at=row["advertised_at"],
        )
        if counted:
            return answers
        again = await SQL.rows(work.connection, "adverts_of_sites", sites=[row["site"]])
        if not again:
            return everything  # it expired meanwhile: nothing is known of the site any more
        row = again[0]
    return none


def _leave_out(placement: Placement, refused: Sequence[PlacedJob]) -> None:
    """These jobs are not made; their input is left over."""
    gone = {id(placed) for placed in refused}
    placement.jobs[:] = [placed for placed in placement.jobs if id(placed) not in gone]
    placement.leftover.extend(unit for placed in refused for unit in placed.job.master)
    placement.leftover.sort(key=lambda unit: unit.file_id)


def _reason(advert: Advert, n_refused: int, n_taken: int, first: JobFacts) -> str:
    """Why jobs were left out: asked again of what was read; if that took them, others were faster meanwhile."""
    why = refusal(replace(advert, current_matches=advert.current_matches + n_taken), first)
    told = f"site {advert.site} did not take {n_refused} jobs by its advertisement"
    return told if why is None else f"{told}: {why.reason}"
