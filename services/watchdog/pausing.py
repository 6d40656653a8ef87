"""Tasks that pause: production that fails too often, analysis of which too much runs or is moved."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial

from services.watchdog.acting import Lately
from services.watchdog.policy import running_use, transfers
from services.watchdog.policy.failures import (
    HEP_SCORE_RATE,
    LABEL,
    OF_LABEL,
    OF_SHARE,
    RATE,
    FailingTask,
    PauseLimits,
    pauses,
)
from services.watchdog.policy.running_use import RunningUse
from services.watchdog.policy.transfers import MovedForUser, TransferLimits
from services.watchdog.store import due as store
from services.watchdog.sweeping import REQUESTED_BY
from shared.brokerage.estimates import DEFAULT_CORE_POWER_HS06
from shared.brokerage.limits import GROUP_CORES_CAP, GROUP_JOBS_CAP, USER_CORES_CAP, USER_JOBS_CAP
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork
from shared.events import TaskCommandRequested
from shared.snapshot import KnownGrid
from shared.task.stored import name_of

#: the rule of a task that is left alone
EXEMPT = name_of("no_auto_pause")


async def pause_failing(work: UnitOfWork, parameters: Parameters, grid: KnownGrid, lately: Lately) -> None:
    """Ask for the command on each such task; nothing is read while no rate is set.

    A task that says noAutoPause neither pauses nor makes others pause. `lately`: when all were looked at last. A task
    that reaches the least number of jobs by one that finished is found at its next failure, or within an hour.
    """
    limits = _limits(parameters)
    if not any(one.is_on for one in limits.values()):
        return
    reasons: dict[int, str] = {}
    tasks = await _failing(work, limits, grid, lately.since(limits, work.now))
    all_found = len(tasks) < store.MOST_TASKS
    found = {task.task_id: pauses(task, limits.get(task.gshare, limits[""])) for task in tasks}
    of_types: dict[str, str] = {}
    for task in tasks:
        reason = found[task.task_id]
        if reason is not None:
            reasons[task.task_id] = reason
            if task.request_type is not None:
                told = f"task {task.task_id} of the same request type ({task.request_type}) pauses: {reason}"
                of_types.setdefault(task.request_type, told)
    if of_types:
        others = await store.SQL.rows(
            work.connection, "running_of_request_types", label=LABEL, request_types=sorted(of_types), exempt=EXEMPT,
            task_ids=sorted(reasons), most=store.MOST_TASKS,
        )  # fmt: skip
        if len(others) >= store.MOST_TASKS:
            all_found = False
            # The rest is found by those that fail: they go on until the others of their type are no more.
            last = others[-1]["request_type"]
            for task in tasks:
                if task.request_type is not None and task.request_type >= last:
                    reasons.pop(task.task_id, None)
        reasons |= {other["task_id"]: of_types[other["request_type"]] for other in others}
    if all_found:
        work.after_commit(partial(lately.looked, limits, work.now))
    for task_id, reason in sorted(reasons.items()):
        work.emit(TaskCommandRequested(task_id=task_id, command="pause", requested_by=REQUESTED_BY, reason=reason))


def _limits(parameters: Parameters) -> dict[str, PauseLimits]:
    """By share, those for which a rate is set; "": all others."""
    prefix = f"{LABEL}_"
    names = {*parameters.names_of(RATE), *parameters.names_of(HEP_SCORE_RATE)}
    shares = sorted(name.removeprefix(prefix) for name in names if name.startswith(prefix))
    return {
        share: parameters.filled(PauseLimits, names={OF_LABEL: LABEL, OF_SHARE: f"{prefix}{share}" if share else None})
        for share in ("", *shares)
    }


async def _failing(
    work: UnitOfWork, limits: Mapping[str, PauseLimits], grid: KnownGrid, since: datetime
) -> Sequence[FailingTask]:
    usual = limits[""]
    own = {share: one for share, one in limits.items() if share}
    powers: dict[str, float] = {}
    if any(one.hep_score_rate_percent is not None for one in limits.values()):
        queues = (await grid.grid(work.connection)).queues
        powers = {name: one.core_power_hs06 for name, one in queues.items() if one.core_power_hs06 > 0}
    rows = await store.SQL.rows(
        work.connection, "failing_tasks", label=LABEL, exempt=EXEMPT, gshares=list(own),
        rates_percent=[one.failure_rate_percent for one in own.values()],
        hep_score_rates_percent=[one.hep_score_rate_percent for one in own.values()],
        usual_rate_percent=usual.failure_rate_percent, usual_hep_score_rate_percent=usual.hep_score_rate_percent,
        queues=list(powers), powers=list(powers.values()), usual_power=DEFAULT_CORE_POWER_HS06,
        least_jobs=usual.least_jobs, least_remaining=usual.least_remaining, since=since,
        most=store.MOST_TASKS,
    )  # fmt: skip
    return [FailingTask(**dict(row)) for row in rows]


async def pause_analysis(work: UnitOfWork, parameters: Parameters, grid: KnownGrid) -> None:
    """Keep analysis from making jobs of whose account too much runs or is moved, until that is less."""
    limits = parameters.filled(TransferLimits)
    storages = (await grid.grid(work.connection)).storages.values()
    tapes = sorted(one.name for one in storages if one.is_tape)
    moved = [MovedForUser(**dict(row)) for row in await store.SQL.rows(work.connection, "moved_for_users", tapes=tapes)]
    running = await _running(work, parameters)
    for task_ids, reason in (
        *((one.task_ids, transfers.too_much(one, limits)) for one in moved),
        *((one.task_ids, running_use.too_much(one)) for one in running),
    ):
        if reason is not None:
            await work.because(reason)
            await store.SQL.run(
                work.connection, "throttle_analysis", task_ids=task_ids, minutes=transfers.PAUSE_MIN, reason=reason,
                allowed=store.THROTTLEABLE,
            )  # fmt: skip
    waiting = [one for one in moved if transfers.too_much(one, limits, transfers.ENDS_BELOW)]
    busy = [one for one in running if running_use.too_much(one, running_use.ENDS_BELOW)]
    await store.SQL.run(
        work.connection, "end_pauses", users=[one.user_name for one in waiting], vos=[one.vo for one in waiting],
        task_ids=sorted(task_id for one in busy for task_id in one.task_ids),
    )  # fmt: skip


async def _running(work: UnitOfWork, parameters: Parameters) -> list[RunningUse]:
    """What runs of accounts that may be near their caps. A cap that is not set is none, as for brokerage."""
    caps = {
        "least_jobs": USER_JOBS_CAP, "least_cores": USER_CORES_CAP,
        "least_group_jobs": GROUP_JOBS_CAP, "least_group_cores": GROUP_CORES_CAP,
    }  # fmt: skip
    least = {name: running_use.ENDS_BELOW * parameters.least(cap, math.inf) for name, cap in caps.items()}
    rows = await store.SQL.rows(work.connection, "running_of_accounts", **least)
    found = []
    for row in rows:
        jobs, cores = (GROUP_JOBS_CAP, GROUP_CORES_CAP) if row["working_group"] else (USER_JOBS_CAP, USER_CORES_CAP)
        own = {
            "jobs_cap": row["jobs_cap"] or int(parameters.read(jobs, vo=row["vo"])),
            "cores_cap": row["cores_cap"] or int(parameters.read(cores, vo=row["vo"])),
        }
        found.append(RunningUse(**{**dict(row), **own}))
    return found
