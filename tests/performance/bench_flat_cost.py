"""What a job costs, and how much memory its maker holds, does not grow with the size of its task.

Tasks of 10 000 and 1 000 000 files, ten for each job, each generated whole by a replica of its own, one after another.
`python -m tests.performance.bench_flat_cost [FILES...]`; 10 000 000 files take half an hour.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import resource
import sys
import time
from collections.abc import Sequence
from typing import Any

from tests import servers
from tests.performance.bench_generation import generate_all, prepare
from tests.performance.sizes import exit_code, sized

N_FILES = (sized(10_000, 1_000), sized(1_000_000, 10_000))
FILES_OF_JOB = 10
#: of a job of the largest task to one of the smallest; more memory in MB
MOST_GROWTH, MOST_MORE_MB = 1.5, 100.0


class _Alone:
    """Nobody is waited for."""

    def release(self) -> None:
        """Nobody waits for this replica."""

    def wait(self) -> None:
        """It begins at once."""


async def _generate(url: str, task_id: int) -> dict[str, float]:
    python_s = time.process_time()
    n_jobs, began, ended = await generate_all(url, task_id, _Alone(), _Alone())
    spent_s = time.process_time() - python_s
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"jobs": n_jobs, "wall": ended - began, "python": spent_s, "mb": peak_mb}


def _replica(url: str, task_id: int, results: Any) -> None:
    results.put(asyncio.run(_generate(url, task_id)))


def measured(url: str, task_id: int) -> dict[str, float]:
    """Jobs, seconds and the most memory of a process that generates one task."""
    spawn = multiprocessing.get_context("spawn")
    results = spawn.Queue()
    process = spawn.Process(target=_replica, args=(url, task_id, results))
    process.start()
    found: dict[str, float] = results.get(timeout=3600)
    process.join()
    return found


def main(sizes: Sequence[int] = N_FILES) -> int:
    """0 if a job of the largest task costs hardly more than one of the smallest, in time and in memory."""
    admin = servers.Servers.find().database_url
    url = asyncio.run(servers.clone_template(admin, asyncio.run(servers.ensure_template(admin))))
    try:
        task_ids = asyncio.run(prepare(url, sizes, FILES_OF_JOB))
        found = [measured(url, task_id) for task_id in task_ids]
    finally:
        asyncio.run(servers.drop_database(admin, url))
    costs = []
    for n_files, one in zip(sizes, found, strict=True):
        wall, python = (one[name] / one["jobs"] * 1e6 for name in ("wall", "python"))
        costs.append(python)
        name = f"{n_files:,} files, {one['jobs']:,.0f} jobs"
        print(f"   {name:58} {wall:6.0f} us a job, {python:4.0f} us of Python; at most {one['mb']:.0f} MB")
    growth, more_mb = costs[-1] / costs[0], found[-1]["mb"] - found[0]["mb"]
    print(f"   {growth:.2f} times the processor time of a job, {more_mb:+.0f} MB")
    return exit_code(growth < MOST_GROWTH and more_mb < MOST_MORE_MB)


if __name__ == "__main__":
    sys.exit(main(tuple(map(int, sys.argv[1:])) or N_FILES))
