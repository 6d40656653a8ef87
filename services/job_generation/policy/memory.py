"""More memory for the next attempt of a file whose job ran out of it.

Source: JEDI, Memory increase in job retry.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from shared.model.job_report import JobReport
from shared.model.resource_types import RAM_COMPENSATION
from shared.task.in_effect import SplitRules
from shared.task.needs import WorkNeeds

RAM_STEPS_MB = (1000, 2000, 3000, 4000, 6000, 8000)
#: of a task's input, by which memory is raised for the whole task
WHOLE_TASK_SHARE = 0.3
#: what a job asks for in all is rounded up by less than this
ROUNDED_UP_BY_MB = 100


@dataclass(frozen=True)
class RetryMemory:
    """A task's own steps (retryRamOffset, retryRamStep, retryRamMax), in MB of its unit; None: not set."""

    offset_mb: int | None = None
    step_mb: int | None = None
    max_mb: int | None = None

    @classmethod
    def of(cls, rules: SplitRules) -> RetryMemory:
        """Take those that a task states."""
        return cls(rules.retry_ram_offset_mb, rules.retry_ram_step_mb, rules.retry_ram_max_mb)

    def at_least(self, ram_mb: int) -> int:
        """The first of offset, offset + step, offset + 2 x step, ... that is enough, at most the maximum.

        Nothing changes without an offset, or above the offset without a step. Example: with an offset of 1000 and steps
        of 4000 MB, 1001 MB become 5000; with a maximum of 1500 as well they become 1500. An offset above the maximum is
        the maximum.
        """
        if self.offset_mb is None or ram_mb <= 0:
            return ram_mb
        if ram_mb <= self.offset_mb:
            return self._limited(self.offset_mb)
        if not self.step_mb:
            return ram_mb
        return self._limited(self.offset_mb + math.ceil((ram_mb - self.offset_mb) / self.step_mb) * self.step_mb)

    def above(self, ram_mb: float) -> int:
        """The first step above it: of the task's own ones, else of the usual ones, at least the offset."""
        wanted = math.floor(ram_mb) + 1
        has_own = self.offset_mb is not None and (self.step_mb or wanted <= self.offset_mb)
        return self.at_least(wanted) if has_own else self._limited(step_above(ram_mb))

    def _limited(self, ram_mb: int) -> int:
        return ram_mb if self.max_mb is None else min(ram_mb, self.max_mb)


USUAL_STEPS = RetryMemory()


class JobMemory(NamedTuple):
    """What one job asked its slot for, and its cores."""

    ram_mb: int
    core_count: int


def asked_ram_mb(needs: WorkNeeds, current_mb: int | None, job: JobMemory | None) -> int:
    """What a failed job itself had asked for, in the task's unit, whatever the task asks for by now.

    `current_mb`: what the memory of its units was raised to. The factor 0.9, the base and the cores are taken out of
    what the job asked its slot for. Example: a job made for 1000 MB holds 900 MB, which are 1000 MB for the task, also
    after the whole task was raised to 3000 MB. Source: JEDI, Memory increase in job retry.
    """
    present = max(current_mb or 0, needs.ram_mb)
    if job is None:
        return present
    cores = max(1, job.core_count) if needs.ram_per_core else 1
    unchanged = int((needs.base_ram_mb + present * cores) * RAM_COMPENSATION)
    if 0 <= job.ram_mb - unchanged < ROUNDED_UP_BY_MB:
        return present
    return max(0, math.ceil((job.ram_mb / RAM_COMPENSATION - needs.base_ram_mb) / cores - 1e-6))


def next_ram_mb(
    needs: WorkNeeds,
    report: JobReport | None,
    current_mb: int | None,
    own: RetryMemory = USUAL_STEPS,
    asked_mb: int | None = None,
) -> int:
    """The first step above max(maxPSS, present request), of the task's own steps where it has any.

    It is in the task's unit (MB for each core, or for the job), and never below what was asked for. `asked_mb`: what
    the failed job itself asked for, where it is known; else what its units and the task ask for now.

    Above the last step nothing larger is asked for. Why steps: few different requests make few kinds of jobs. Example:
    a job that asked for 2000 MB and used 2600 MB asks for 3000 MB next; with an offset of 2500 and steps of 500 MB too,
    and with an offset of 1500 and no step.
    Source: JEDI, Memory increase in job retry.
    """
    present = max(current_mb or 0, needs.ram_mb) if asked_mb is None else asked_mb
    wanted = max(float(present), _used_mb(needs, report))
    return max(present, own.above(wanted))


def times_ram_mb(
    needs: WorkNeeds,
    report: JobReport | None,
    current_mb: int | None,
    own: RetryMemory = USUAL_STEPS,
    asked_mb: int | None = None,
) -> int:
    """Present request x retryRamStep / the task's memory.

    At most retryRamMax, and never below the present request.

    Example: with 2000 MB for the task and a step of 3000 MB, 2000 MB become 3000 and then 4500. Without a step, or
    where the task states no memory, the usual steps are taken. Source: PanDA, job retry module.
    """
    if not own.step_mb or needs.ram_mb <= 0:
        return next_ram_mb(needs, report, current_mb, own, asked_mb)
    present = max(current_mb or 0, needs.ram_mb) if asked_mb is None else asked_mb
    wanted = math.ceil(present * own.step_mb / needs.ram_mb)
    return max(present, wanted if own.max_mb is None else min(wanted, own.max_mb))


def step_above(ram_mb: float) -> int:
    """The first usual step above it; the last one where there is none."""
    return next((step for step in RAM_STEPS_MB if step > ram_mb), RAM_STEPS_MB[-1])


def ram_of_whole_task(task_ram_mb: int, n_files: int, raised: Mapping[int, int]) -> int | None:
    """The memory of the whole task once more than 30 % of its input was raised above it.

    None: it keeps its own. `raised`: how many files ask for which memory. The task gets the largest of them.

    Why: when so many jobs run out of memory, the rest would only fail first. Example: of 45 files of a task with 1000
    MB, 4 ask for 2000 and 10 for 4000 MB: 14 of 45 are 31 %, so the task gets 4000 MB; 13 of 45 are not enough.
    Source: JEDI, Memory increase in job retry.
    """
    above = {ram_mb: count for ram_mb, count in raised.items() if ram_mb > task_ram_mb and count > 0}
    if n_files <= 0 or sum(above.values()) <= WHOLE_TASK_SHARE * n_files:
        return None
    return max(above)


def _used_mb(needs: WorkNeeds, report: JobReport | None) -> float:
    """What the job used, in the task's unit."""
    if report is None:
        return 0.0
    used_mb = (report.memory_kb or 0) / 1024
    if needs.ram_per_core:
        used_mb = max(0.0, used_mb - needs.base_ram_mb) / max(1, report.core_count or needs.core_count or 1)
    return used_mb
