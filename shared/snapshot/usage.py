"""Who uses how much, from the database: what the world file has of it, read for one decision."""

from __future__ import annotations

from pathlib import Path

import aiosql
import asyncpg

from shared.brokerage.analysis_facts import UsageRows, percent_of_shares
from shared.model.world_file import (
    GroupUsage,
    JobsCounted,
    Outcomes,
    QueueHistory,
    UserUsage,
    WaitingMergeJob,
    Waits,
)

queries = aiosql.from_path(Path(__file__).with_name("world.sql"), "asyncpg")


async def read_usage(connection: asyncpg.Connection) -> UsageRows:
    """Everything that is counted now; rows of the database need no validation."""
    waiting = queries.waiting_merge_jobs_of_world(connection)
    shares = [(row["name"], row["value"], row["parent"]) async for row in queries.shares_of_world(connection)]
    return UsageRows(
        statistics=[JobsCounted.model_construct(**row) async for row in queries.statistics_of_world(connection)],
        history=QueueHistory.model_construct(
            outcomes=[Outcomes.model_construct(**row) async for row in queries.outcomes_of_world(connection)],
            waits=[Waits.model_construct(**row) async for row in queries.waits_of_world(connection)],
            waiting_merge_jobs=[WaitingMergeJob.model_construct(**row) async for row in waiting],
        ),
        share_percent=percent_of_shares(shares),
        users={
            row["user_name"]: UserUsage.model_construct(
                disk_quota_gb=row["disk_quota_gb"], disk_used_gb=row["disk_used_gb"]
            )
            async for row in queries.users_of_world(connection)
        },
        groups={
            row["working_group"]: GroupUsage(**{name: row[name] for name in GroupUsage.model_fields})
            async for row in queries.group_usage_of_world(connection)
        },
    )
