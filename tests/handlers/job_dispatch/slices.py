"""Commands that are not done yet, slice by slice."""

from __future__ import annotations

from services.job_dispatch.app import Parts
from tests.handlers.job_dispatch.grid_of_jobs import Rows


async def one_slice(rows: Rows, parts: Parts) -> int | None:
    async with rows.database.begin(reason="test") as work:
        return await parts.commands.slice(work)


async def work_off(rows: Rows, parts: Parts) -> int:
    """All slices that are left; how many there were."""
    n_slices = 0
    while await one_slice(rows, parts) is not None:
        n_slices += 1
    return n_slices
