"""What pilots say of running jobs, and the output of those in debug mode."""

from __future__ import annotations

from collections.abc import Sequence

import asyncpg

from services.job_dispatch.policy.reports import Report
from shared.db.queries import Queries

SQL = Queries.beside(__file__)

FORGET_SLICE = 150_000  # rows in one run


async def note_progress(connection: asyncpg.Connection, reports: Sequence[Report]) -> None:
    """Keep what these reports say of their jobs, each of which this transaction holds."""
    said = sorted((one for one in reports if one.progress), key=lambda one: one.job_id)
    if said:
        job_ids, progress = [one.job_id for one in said], [one.progress for one in said]
        await SQL.run(connection, "note_progress", job_ids=job_ids, progress=progress)
    printed = sorted((one for one in reports if one.stdout), key=lambda one: one.job_id)
    if printed:
        job_ids, texts = [one.job_id for one in printed], [one.stdout for one in printed]
        await SQL.run(connection, "note_stdout", job_ids=job_ids, texts=texts)


async def end_progress(connection: asyncpg.Connection, job_ids: Sequence[int]) -> None:
    """Drop what was kept of these jobs: they have ended, and their reports have all of it."""
    await SQL.run(connection, "end_progress", job_ids=list(job_ids))


async def forget_said(connection: asyncpg.Connection, *, progress_kept_s: float, stdout_kept_s: float) -> None:
    """Delete what was kept of jobs that ended without a report, and old output of payloads."""
    await SQL.run(connection, "forget_progress", older_than_s=progress_kept_s, size=FORGET_SLICE)
    await SQL.run(connection, "forget_stdout", older_than_s=stdout_kept_s, size=FORGET_SLICE)
