"""Leases: one replica at a time does a periodic work, and cannot commit once it lost the lease.

A row of `leases` holds (name, holder, term, expires_at); the specification calls it the process lock. The term grows
each time the lease changes hands. A holder checks its term *inside* the transaction that does the work, with a row
lock on the lease: from then until its commit no other process can take the lease over, so a process that
was stopped for a minute and goes on as if it still held the lease finds another term and commits nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import asyncpg

from shared.db.database import Database

# SKIP LOCKED: the present holder is inside a fenced transaction; that is as good as "not expired".
_TAKE = """
WITH free AS MATERIALIZED (
    SELECT name, partition FROM leases
    WHERE name = $1 AND partition = $2 AND (holder = $3 OR expires_at <= orrery_now())
    FOR UPDATE SKIP LOCKED
)
UPDATE leases
SET term = CASE WHEN leases.holder = $3 THEN term ELSE term + 1 END,
    acquired_at = CASE WHEN leases.holder = $3 THEN acquired_at ELSE orrery_now() END,
    holder = $3,
    expires_at = orrery_now() + make_interval(secs => $4)
FROM free WHERE leases.name = free.name AND leases.partition = free.partition
RETURNING term
"""

_CREATE = """
INSERT INTO leases (name, partition, holder, term, acquired_at, expires_at)
VALUES ($1, $2, $3, 1, orrery_now(), orrery_now() + make_interval(secs => $4))
ON CONFLICT (name, partition) DO NOTHING
RETURNING term
"""

# SKIP LOCKED: a lease inside a fenced transaction cannot be taken over anyway.
_RENEW = """
WITH mine AS MATERIALIZED (
    SELECT name, partition FROM leases WHERE holder = $1 AND name = ANY($2) FOR UPDATE SKIP LOCKED
)
UPDATE leases SET expires_at = orrery_now() + make_interval(secs => $3)
FROM mine WHERE leases.name = mine.name AND leases.partition = mine.partition
"""

_FENCE = "SELECT 1 FROM leases WHERE name = $1 AND partition = $2 AND holder = $3 AND term = $4 FOR UPDATE"

_RELEASE = """
UPDATE leases SET expires_at = orrery_now() WHERE name = $1 AND partition = $2 AND holder = $3 AND term = $4
"""


class LeaseLost(Exception):
    """Another holder has taken the lease since: whatever was about to be committed must not be."""


@dataclass(frozen=True)
class Lease:
    """The right to do the work `name` on one partition of it, until another process takes a later term."""

    name: str
    holder: str
    term: int
    partition: str = ""

    async def fence(self, connection: asyncpg.Connection) -> None:
        """Inside a transaction: hold the lease row until the commit.

        Raises LeaseLost if the term is no longer ours.
        """
        held = await connection.fetchval(_FENCE, self.name, self.partition, self.holder, self.term)
        if held is None:
            raise LeaseLost(f"lease {self.name!r}: term {self.term} of {self.holder} is over")


async def take(database: Database, name: str, *, holder: str, duration_s: float, partition: str = "") -> Lease | None:
    """Take, or prolong, the lease `name`; None while somebody else holds it."""
    async with database.begin(reason=f"lease {name}") as work:
        arguments = (name, partition, holder, float(duration_s))
        term = await work.connection.fetchval(_TAKE, *arguments)
        if term is None:
            term = await work.connection.fetchval(_CREATE, *arguments)
    return None if term is None else Lease(name, holder, term, partition)


async def renew(database: Database, names: Sequence[str], *, holder: str, duration_s: float) -> None:
    """Prolong those of these leases that `holder` still has."""
    async with database.begin(reason="leases prolonged") as work:
        await work.connection.execute(_RENEW, holder, list(names), float(duration_s))


async def release(database: Database, lease: Lease) -> None:
    """Give the lease back early (a clean stop), so that the next replica need not wait for its end."""
    async with database.begin(reason=f"lease {lease.name} released") as work:
        await work.connection.execute(_RELEASE, lease.name, lease.partition, lease.holder, lease.term)
