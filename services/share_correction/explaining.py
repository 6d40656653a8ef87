"""Explains shares to people: target, use, place in the order, and what corrections follow from."""

from __future__ import annotations

from typing import Any

from services.share_correction.policy.explanation import explained, terms_shown
from services.share_correction.policy.history import table_of, width_for
from services.share_correction.store import shares as store
from services.share_correction.store.history import use_over_time
from shared.auth import Caller
from shared.auth.reach import Reach
from shared.brokerage.estimates import DEFAULT_CORE_POWER_HS06
from shared.db.database import Database
from shared.snapshot import KnownGrid

MOST_TERMS, MOST_USERS = 2000, 1000


class Explanations:
    """`grid` is where benchmarks of queues are from."""

    def __init__(self, database: Database, grid: KnownGrid) -> None:
        self._database = database
        self._grid = grid

    async def of_all(self) -> list[dict[str, Any]]:
        """Explain each share, in the order in which dispatch serves them."""
        async with self._database.read() as connection:
            nodes, _ = await store.shares(connection)
            queues = (await self._grid.grid(connection)).queues.values()
            powers = {one.name: one.core_power_hs06 for one in queues if one.core_power_hs06 > 0}
            used, n_queued = await store.use_of_shares(connection, powers, DEFAULT_CORE_POWER_HS06)
            latest = await store.SQL.rows(connection, "latest_terms")
        return explained(nodes, used, n_queued, {row["gshare"]: terms_shown(dict(row)) for row in latest})

    async def history(self, gshare: str | None, span_s: float, caller: Caller) -> dict[str, Any]:
        """Read what all shares used in buckets of a span up to now, or what the users of one used."""
        width_s = width_for(span_s)
        async with self._database.read() as connection:
            rows = await use_over_time(connection, gshare, span_s, width_s, Reach.of(caller))
        return {"gshare": gshare, "width_s": width_s, **table_of(rows)}

    async def over_time(self, gshare: str, span_s: float, caller: Caller) -> dict[str, Any]:
        """Read the terms of one share's corrections over a span up to now, and its users with theirs.

        Users of whom the caller may read nothing have no name.
        """
        reach = Reach.of(caller)
        async with self._database.read() as connection:
            terms = await store.SQL.rows(connection, "terms_of_share", gshare=gshare, span_s=span_s, size=MOST_TERMS)
            users = await store.SQL.rows(
                connection, "users_of_share", gshare=gshare, size=MOST_USERS, **reach._asdict()
            )
        return {
            "history": [terms_shown(dict(row)) for row in terms],
            "users": [
                {
                    "user_name": row["user_name"],
                    "correction_factor": round(row["correction_factor"], 4),
                    "corrected_at": row["corrected_at"],
                    "terms": terms_shown(dict(row)) if row["terms"] is not None else None,
                }
                for row in users
            ],
        }
