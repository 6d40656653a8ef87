"""Turns of periodic work; periods are runtime parameters, remembered across restarts in `watch_runs`.

`Periodic` ticks every few seconds under a lease; the turn decides whether this tick does anything. A turn is taken
inside the transaction that does the work, so work that was rolled back is still due.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import asyncpg

# A clock that was set back does not stop the work.
_TAKE = """
INSERT INTO watch_runs AS w (watch, last_run_at) VALUES ($1, orrery_now())
ON CONFLICT (watch) DO UPDATE SET last_run_at = orrery_now()
 WHERE w.last_run_at <= orrery_now() - make_interval(secs => $2) OR w.last_run_at > orrery_now()
RETURNING (SELECT last_run_at FROM watch_runs WHERE watch = $1) AS previous_at
"""


@dataclass(frozen=True)
class Turn:
    """The work may be done now; `previous_at` is None the first time on this database."""

    previous_at: datetime | None


async def take_turn(connection: asyncpg.Connection, name: str, period_s: float) -> Turn | None:
    """This piece of work's turn, or None before `period_s` seconds since the last one are over."""
    row = await connection.fetchrow(_TAKE, name, float(period_s))
    return None if row is None else Turn(row["previous_at"])
