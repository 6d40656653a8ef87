"""Requirements that are used again say so within a day, and those that went are made again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from services.job_generation.specification.requirements import Requirement
from services.job_generation.store.jobs import ShapeIds
from shared.db import Database

WANTED = Requirement("managed", "SCORE", 1, 2000, 1000, 3600)


async def test_what_is_used_again_on_another_day_is_noted_once_a_day(database_url: str) -> None:
    now = datetime(2026, 3, 1, 12, tzinfo=UTC)
    database = await Database.connect(database_url, actor="test", now=lambda: now)
    shapes = ShapeIds()

    async def intern() -> int:
        async with database.begin(reason="test") as work:
            return (await shapes.intern(work, [WANTED]))[WANTED]

    async def used_at() -> datetime:
        async with database.read() as connection:
            found: datetime = await connection.fetchval("SELECT used_at FROM requirement_shapes")
            return found

    first = await intern()
    made_at = now
    now += timedelta(hours=10)
    assert await intern() == first and await used_at() == made_at
    now += timedelta(days=1)
    assert await intern() == first and await used_at() == now
    async with database.read() as connection:
        await connection.execute("DELETE FROM requirement_shapes")
    now += timedelta(days=40)
    again = await intern()
    assert again != first and await used_at() == now
    await database.close()
