"""Processor seconds of processes, from /proc: how dear a request is, whatever else the machine does meanwhile."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import asyncpg

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def used_s(pids: Iterable[int]) -> dict[int, float]:
    """Processor seconds, in user and system mode, of those processes that live here."""
    found = {}
    for pid in pids:
        try:
            after_name = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2]
        except OSError:
            continue
        fields = after_name.split()
        found[pid] = (int(fields[11]) + int(fields[12])) / TICKS_PER_S
    return found


async def sessions_of(url: str) -> dict[int, float]:
    """Processor seconds of the sessions of this database; none where the server runs elsewhere."""
    connection = await asyncpg.connect(url)
    rows = await connection.fetch(
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        " AND backend_type = 'client backend'"
    )
    await connection.close()
    return used_s(row["pid"] for row in rows)


def spent_s(before: dict[int, float], after: dict[int, float]) -> float:
    """What was used in between; processes that began meanwhile count whole."""
    return sum(seconds - before.get(pid, 0.0) for pid, seconds in after.items())


def resident_mb(pid: int) -> float:
    """Memory that a process (0: this one) holds; 0 where that cannot be read."""
    try:
        pages = int(Path(f"/proc/{pid or 'self'}/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
