"""1 000 000 files cut into jobs in memory, beside what the interpreter takes to walk the same files once.

The time for each job of a task with 10 000 files and of one with 1 000 000 says whether the cost of a job is flat. What
is measured is the cutter that generation and dry runs use, with limits of space and walltime at two queues.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from services.job_generation.policy.values import QueueFacts, Unit
from services.job_generation.splitting.placing import place
from shared.runtime.collector import tune_collector
from tests.performance.sizes import exit_code, sized
from tests.unit.job_generation.made import a_task

N_FILES = sized(1_000_000, 20_000)
N_FILES_SMALL = sized(10_000, 2_000)
LIMIT_S = 2.0
FILE_BYTES, FILE_EVENTS = 100_000_000, 1000
QUEUES = [QueueFacts(f"Q{n}", "SCORE", f"SITE{n}", max_work_dir_mb=14_000, max_time_s=48 * 3600) for n in (1, 2)]
RULES: dict[str, dict[str, Any]] = {
    "nFilesPerJob 1": {"nFilesPerJob": 1},
    "nFilesPerJob 10": {"nFilesPerJob": 10},
    "nGBPerJob 2": {"nGBPerJob": 2},
    "nEventsPerJob 5000": {"nEventsPerJob": 5000},
}


def files(n_files: int) -> list[Unit]:
    return [
        Unit(n, f"mc23_demo.700123.EVNT.e8500._{n:06d}.pool.root.1", FILE_BYTES + n % 7, FILE_EVENTS)
        for n in range(1, n_files + 1)
    ]


def bare_walk_s(units: Sequence[Unit]) -> float:
    """Seconds to add up sizes and events, and to slice the files by ten."""
    began = time.process_time()
    list(accumulate((unit.size_bytes for unit in units), initial=0))
    list(accumulate((unit.n_events or 0 for unit in units), initial=0))
    _ = [tuple(units[start : start + 10]) for start in range(0, len(units), 10)]
    return time.process_time() - began


def split_s(units: Sequence[Unit], rule: dict[str, Any]) -> tuple[float, int]:
    """Seconds of processor time for all jobs of these files, and how many there are."""
    task = a_task(rule)
    began = time.process_time()
    found = place(task, units, (), QUEUES, scout=False, max_jobs=len(units), seed=1, more_follows=False)
    seconds = time.process_time() - began
    assert sum(len(one.job.master) for one in found.jobs) == len(units), found.reasons
    return seconds, len(found.jobs)


def main() -> int:
    tune_collector()  # as every service does
    many, few = files(N_FILES), files(N_FILES_SMALL)
    limit = bare_walk_s(many)
    print(f"   {'the same files walked once (the limit of the machine)':58} {limit:8.2f} s")
    kept = True
    for name, rule in RULES.items():
        seconds, n_jobs = split_s(many, rule)
        small_s, n_small = split_s(few, rule)
        print(
            f"   {name + f', {N_FILES:,} files, {n_jobs:,} jobs':58} {seconds:8.2f} s   {limit / seconds:5.1%} of the"
            f" limit; {seconds / n_jobs * 1e6:.1f} us a job, {small_s / n_small * 1e6:.1f} with {N_FILES_SMALL:,} files"
        )
        kept = kept and seconds < LIMIT_S
    print(f"   the aim is less than {LIMIT_S:g} s")
    return exit_code(kept)


if __name__ == "__main__":
    sys.exit(main())
