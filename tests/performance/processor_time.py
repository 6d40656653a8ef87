"""Processor seconds of processes, from /proc: how dear a request is, whatever else the machine does meanwhile."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Account:
    """Processor seconds so far: of named groups of processes, by id, and of the machine by what it did."""

    groups: Mapping[str, Mapping[int, float]]
    machine: Mapping[str, float]
    at: float

    def since(self, before: Account) -> dict[str, float]:
        """Processor seconds by name; together they are all that the cores had to give meanwhile."""
        spent = {name: spent_s(before.groups.get(name, {}), now) for name, now in self.groups.items()}
        busy = {name: seconds - before.machine[name] for name, seconds in self.machine.items()}
        used = busy.pop("processes")
        return {**spent, **busy, "other processes": used - sum(spent.values())}


async def account(url: str, **others: Iterable[int]) -> Account:
    """What each kind of session of this database, PostgreSQL's own processes and `others` have used until now."""
    connection = await asyncpg.connect(url, server_settings={"application_name": "account"})
    rows = await connection.fetch(
        "SELECT pid, CASE WHEN backend_type <> 'client backend' THEN 'PostgreSQL ' || backend_type"
        " WHEN application_name LIKE 'orrery % claims' THEN 'PostgreSQL claims'"
        " WHEN application_name LIKE 'orrery % windows' THEN 'PostgreSQL windows'"
        " ELSE 'PostgreSQL other sessions' END AS name FROM pg_stat_activity"
        " WHERE pid <> pg_backend_pid() AND (datname = current_database() OR backend_type <> 'client backend')"
    )
    await connection.close()
    groups = {name: used_s(pids) for name, pids in others.items()}
    for row in rows:
        groups.setdefault(row["name"], {}).update(used_s([row["pid"]]))
    return Account(groups, machine_s(), time.perf_counter())


def machine_s() -> dict[str, float]:
    """Seconds of all cores since the machine started: in processes, in interrupts, stolen by its host, without work."""
    counts = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:9]
    user, nice, system, idle, waiting, hard, soft, stolen = (int(one) / TICKS_PER_S for one in counts)
    return {"processes": user + nice + system, "interrupts": hard + soft, "stolen": stolen, "idle": idle + waiting}


def shares_of(spent: Mapping[str, float], n_requests: int) -> str:
    """Microseconds of each for one request, the largest first; what is below half of one is left out."""
    each = Counter({name: seconds / max(1, n_requests) * 1e6 for name, seconds in spent.items()})
    return ", ".join(f"{name} {value:.0f}" for name, value in each.most_common() if abs(value) >= 0.5)
