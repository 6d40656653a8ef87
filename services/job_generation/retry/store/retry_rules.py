"""Rules about errors of jobs, what they decided, and what follows for tasks and their input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import asyncpg

from services.job_generation.retry.types import RetryDecision, RetryRule
from shared.auth import Caller
from shared.db.queries import Queries
from shared.db.unit_of_work import UnitOfWork

SQL = Queries.beside(__file__)


async def retry_rules(connection: asyncpg.Connection) -> list[RetryRule]:
    """All of them, in the order of their numbers."""
    return [RetryRule(**dict(row)) for row in await SQL.rows(connection, "retry_rules")]


async def jobs_of_rules(connection: asyncpg.Connection) -> dict[int, int]:
    """How many failed jobs each rule decided about, as long as that is known."""
    return {row["rule_id"]: row["n_jobs"] for row in await SQL.rows(connection, "jobs_of_retry_rules")}


async def remove_other_rules(connection: asyncpg.Connection, rules: Sequence[RetryRule]) -> None:
    """Forget all but these."""
    await SQL.run(connection, "remove_other_retry_rules", rule_ids=[one.rule_id for one in rules])


async def remove_rule(connection: asyncpg.Connection, rule_id: int) -> bool:
    """Forget one; whether it was there."""
    return await SQL.row(connection, "remove_retry_rule", rule_id=rule_id) is not None


async def put_rules(connection: asyncpg.Connection, rules: Sequence[RetryRule]) -> None:
    """Each in the place of the one with its number."""
    await SQL.run(
        connection,
        "put_retry_rules",
        rule_ids=[one.rule_id for one in rules],
        sources=[one.source for one in rules],
        codes=[one.code for one in rules],
        patterns=[one.pattern for one in rules],
        actions=[one.action for one in rules],
        parameters=[dict(one.parameters) for one in rules],
        architectures=[one.architecture for one in rules],
        releases=[one.release for one in rules],
        work_queue_ids=[one.work_queue_id for one in rules],
        expire_at=[one.expires_at for one in rules],
        are_active=[one.is_active for one in rules],
        notes=[one.note for one in rules],
    )


async def record_change(connection: asyncpg.Connection, caller: Caller, verb: str, details: Mapping[str, Any]) -> None:
    """Who changed rules, and into what."""
    await SQL.run(
        connection, "record_audit", caller=caller.name, roles=sorted(caller.roles), verb=verb, details=dict(details)
    )


async def add_decisions(work: UnitOfWork, task_id: int, decisions: Mapping[int, RetryDecision]) -> None:
    """Keep what was decided, by job."""
    ordered = sorted(decisions.items())
    await SQL.run(
        work.connection,
        "add_retry_decisions",
        task_id=task_id,
        job_ids=[job_id for job_id, _ in ordered],
        rule_ids=[one.rule.rule_id for _, one in ordered],
        actions=[one.rule.action for _, one in ordered],
        are_active=[one.rule.is_active for _, one in ordered],
        reasons=[one.reason[:1000] for _, one in ordered],
    )


async def forget_decisions(work: UnitOfWork, before: Any, count: int) -> None:
    """Forget old decisions."""
    await SQL.run(work.connection, "forget_retry_decisions", before=before, count=count)
