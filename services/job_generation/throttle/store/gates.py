"""Gates of job generation: their counts and cycles, who waits at them, and how much shares run."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from services.job_generation.policy.values import Task
from services.job_generation.throttle.fair_share import ShareUse
from services.job_generation.throttle.gate_order import Cycle, CycleRule, PlaceAtGate, WaitingTask
from services.job_generation.throttle.throttle import CountedStatus, ThrottleScope
from shared.db.queries import Queries
from shared.db.unit_of_work import UnitOfWork

SQL = Queries.beside(__file__)

#: a woken task of which nothing was heard for so long is not waited for
HEARD_WITHIN_S = 10.0


@dataclass
class GateRow:
    """A gate: jobs `by_status` as counted at `counted_at` (None: never), with what was offered since."""

    counted_at: datetime | None
    by_status: dict[CountedStatus, int]
    cycle: Cycle


def _key(scope: ThrottleScope) -> dict[str, Any]:
    return {
        "gshare": scope.gshare,
        "resource_type": scope.resource_type,
        "work_queue_id": scope.work_queue_id or 0,
    }


async def lock_gate(work: UnitOfWork, scope: ThrottleScope) -> GateRow:
    """The gate, held until the transaction ends; who comes second sees what the first offered."""
    row = await SQL.row(work.connection, "lock_gate", **_key(scope))
    if row is None:
        await SQL.run(work.connection, "add_gate", **_key(scope))
        row = await SQL.one(work.connection, "lock_gate", **_key(scope))
    return GateRow(row["counted_at"], dict(row["by_status"]), _cycle(row))


async def keep_gate(work: UnitOfWork, scope: ThrottleScope, gate: GateRow) -> None:
    """Store a gate that is held."""
    await SQL.run(
        work.connection,
        "keep_gate",
        **_key(scope),
        counted_at=gate.counted_at,
        by_status=gate.by_status,
        n_tasks=gate.cycle.n_tasks,
        n_super_high=gate.cycle.n_super_high,
        by_group=dict(gate.cycle.by_group),
    )


async def cycle_of_gate(work: UnitOfWork, scope: ThrottleScope) -> Cycle:
    """Where the cycle of a gate stands; it is not held."""
    row = await SQL.row(work.connection, "cycle_of_gate", **_key(scope))
    return Cycle() if row is None else _cycle(row)


def _cycle(row: Any) -> Cycle:
    return Cycle(row["n_tasks"], row["n_super_high"], row["by_group"])


async def own_wait(work: UnitOfWork, task: Task) -> tuple[datetime, bool]:
    """Since when the task waits at its gate (now where it does not), and whether it was woken."""
    row = await SQL.row(work.connection, "own_wait", task_id=task.task_id)
    return (work.now, False) if row is None else (row["since"], row["is_woken"])


async def ahead_at_gate(
    work: UnitOfWork,
    scope: ThrottleScope,
    mine: WaitingTask,
    place: PlaceAtGate,
    rule: CycleRule,
    *,
    is_woken: bool,
) -> list[WaitingTask]:
    """Tasks at this place of the gate that could go on at once and go before this one."""
    given: dict[str, Any] = {
        "resource_type": scope.resource_type,
        "cap": scope.cap,
        "task_id": mine.task_id,
        "since": mine.since,
        "served": place.served,
        "priority": place.priority,
        "at_least": place.at_least,
        "below": place.below,
        "groups": list(place.by_group),
        "times_served": list(place.by_group.values()),
        "group_by": rule.group_by,
        "at_most": place.at_most,
        "is_woken": is_woken,
        "heard_within_s": HEARD_WITHIN_S,
    }
    if scope.work_queue_id is None:
        rows = await SQL.rows(work.connection, "ahead_in_share", **given, gshare=scope.gshare)
    else:
        rows = await SQL.rows(work.connection, "ahead_in_work_queue", **given, work_queue_id=scope.work_queue_id)
    return [WaitingTask(*row) for row in rows]


async def use_of_shares(work: UnitOfWork) -> list[ShareUse]:
    """Every share with its running and queued jobs."""
    return [ShareUse(*row) for row in await SQL.rows(work.connection, "use_of_shares")]
