"""Cuts one chunk into jobs, greedily and in order.

Source: JEDI, Workflow for tasks with input datasets; dataset attributes.

A job takes master units in order, `files_per_step` at a time, with secondary files by ratio, and ends before the first
addition that breaks a limit. It always has at least one step, unless even that does not fit the queue. Every limit that
a job breaks is broken by each longer job too, so that the longest one is found by halving.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from operator import le
from typing import NamedTuple

from services.job_generation.policy.values import JobInput, QueueFacts
from services.job_generation.splitting.limits import JobSizeLimits, Totals, refusal, too_short
from services.job_generation.splitting.master_input import MasterInput
from services.job_generation.splitting.secondary import NoSecondaryLeft, Pool
from shared.task.in_effect import SplitRules
from shared.task.needs import WorkNeeds


class Cut(NamedTuple):
    """One job's input, the position after it, and the pools after it; or why nothing fits here.

    `is_full`: whether more input could not make it longer. `is_short`: it is less than the queue asks for.
    """

    job: JobInput | None
    position: int
    pools: tuple[Pool, ...]
    reason: str = ""
    is_full: bool = True
    is_short: bool = False


class Cutter:
    """Cuts the input of one chunk at one queue; what repeats is worked out once."""

    def __init__(
        self, master: MasterInput, limits: JobSizeLimits, rules: SplitRules, needs: WorkNeeds, queue: QueueFacts
    ) -> None:
        self._master, self._limits, self._rules = master, limits, rules
        self._needs, self._queue = needs, queue
        self._step = rules.files_per_step
        self._last_length = 1
        self._fitting = self._fitting_first = Totals()
        self._free = self._free_length()

    def known_ends(self, position: int, n_jobs: int) -> Sequence[int]:
        """Where the next jobs without secondaries end, as far as they need not be tried.

        Only jobs that more input follows.
        """
        free, most_events, n_units = self._free, self._limits.max_events, len(self._master)
        if not free:
            return ()
        if most_events is None:
            n_whole = max(0, min(n_jobs, (n_units - 1 - position) // free))
            return range(position + free, position + free * n_whole + 1, free)
        events, step = self._master.events, self._step
        ends: list[int] = []
        while len(ends) < n_jobs and position + free < n_units:
            last = bisect_right(events, events[position] + most_events, position + 1, position + free + 1) - 1
            position = max(position + step, last)
            ends.append(position)
        return ends

    def _free_length(self) -> int:
        """The most units of a job where only the numbers of files and events end one.

        0 where so many of the largest unit break another limit, or a rule keeps units together or apart.
        """
        master, limits, step = self._master, self._limits, self._step
        if master.ends is not None or master.together is not None or limits.least_walltime_s is not None:
            return 0
        most, largest = max(step, limits.max_files), master.largest
        most_events = most * largest.n_events
        if limits.max_events is not None:
            if master.fewest_events <= 0:
                return 0
            most = max(step, min(most, limits.max_events // master.fewest_events))
            most_events = min(most * largest.n_events, limits.max_events)
        fits = not self._refuses(step, step * largest.n_events, first=True)
        return most if fits and not self._refuses(most, most_events, first=False) else 0

    def _refuses(self, n_units: int, n_events: int, *, first: bool) -> bool:
        """Whether a job of so many of the largest unit breaks a limit; if not, no job of so many does."""
        n_bytes = n_units * self._master.largest.input_bytes
        totals = Totals(n_units, 0, n_events, n_bytes, float(n_bytes))
        return refusal(totals, self._limits, self._needs, self._queue, first=first) is not None

    def cut(self, position: int, pools: tuple[Pool, ...]) -> Cut:
        """The next job from `position` on.

        Raises NoSecondaryLeft if not even one step has its secondaries.
        """
        master, all_pools = self._master, pools
        pools = tuple(pool.at(master.units[position].boundary_id) for pool in pools)
        least, most = self._bounds(position)
        why = self._why_not(position, least, pools, first=True)
        if why is not None:
            return Cut(None, position, all_pools, why)
        n_units = least if most == least else self._longest(position, least, most, pools)
        last = position + n_units
        is_full = last < len(master) or self._is_full(master.totals(position, n_units))
        taken = tuple(master.units[position:last])
        short = ""
        if self._limits.least_walltime_s is not None:
            short = too_short(master.totals(position, n_units), self._limits, self._needs, self._queue) or ""
        if not pools:
            return Cut(JobInput(taken), last, pools, short, is_full, bool(short))
        totals = master.totals(position, n_units)
        wanted = [pool.files_wanted(n_units, totals.n_events) for pool in pools]
        secondary = {pool.dataset.dataset_id: pool.take(n_files) for pool, n_files in zip(pools, wanted, strict=True)}
        after = tuple(
            pool if pool.by_boundary is not None else pool.after(n_files)
            for pool, n_files in zip(all_pools, wanted, strict=True)
        )
        return Cut(JobInput(taken, secondary), last, after, short, is_full, bool(short))

    def _bounds(self, position: int) -> tuple[int, int]:
        """The units of the smallest job from there on, and of the largest that rules about numbers allow."""
        master, limits = self._master, self._limits
        whole = master.inseparable(position)
        if whole > 1:
            return whole, whole
        room = master.end_of(position) - position
        least = min(self._step, room)
        most = max(least, min(room, limits.max_files))
        if limits.max_events is not None and most > least:
            # a job that has enough events takes no more files, not even such without events
            enough = master.events[position] + limits.max_events
            most = max(least, min(most, bisect_left(master.events, enough, position + 1) - position))
        return least, most

    def _longest(self, position: int, least: int, most: int, pools: tuple[Pool, ...]) -> int:
        """The longest job that breaks no limit, between the smallest one, which fits, and the largest.

        The length of the job before is looked at first: mostly the next one has it too.
        """
        low, high = least, most
        guess = self._last_length
        if low <= guess < high and self._fits(position, guess, pools):
            low = guess
            if not self._fits(position, guess + 1, pools):
                high = guess
        elif self._fits(position, high, pools):
            low = high
        else:
            high -= 1
        while low < high:
            middle = (low + high + 1) // 2
            if self._fits(position, middle, pools):
                low = middle
            else:
                high = middle - 1
        self._last_length = low
        return low

    def _fits(self, position: int, n_units: int, pools: tuple[Pool, ...]) -> bool:
        return self._why_not(position, n_units, pools, first=False) is None

    def _why_not(self, position: int, n_units: int, pools: tuple[Pool, ...], *, first: bool) -> str | None:
        """The limit that a job of so many units breaks. What is in no way more than what fitted fits."""
        totals = self._master.totals(position, n_units)
        if pools:
            try:
                totals = _with_secondary(totals, pools)
            except NoSecondaryLeft as shortage:
                if first:
                    raise
                return shortage.reason
        known = self._fitting_first if first else self._fitting
        if all(map(le, totals, known)):
            return None
        why = refusal(totals, self._limits, self._needs, self._queue, first=first)
        if why is None and first:
            self._fitting_first = totals
        elif why is None:
            self._fitting = totals
        return why

    def why_ended(self, position: int, n_units: int, pools: tuple[Pool, ...]) -> str:
        """Why a job from there on was not made longer, for people."""
        master, limits, last = self._master, self._limits, position + n_units
        if master.inseparable(position) > 1:
            return "it is one whole boundary"
        if last >= len(master):
            return "the input ends"
        if last >= master.end_of(position):
            return master.why_parted(last)
        totals = master.totals(position, n_units)
        if n_units >= limits.max_files:
            return f"{limits.max_files} files are the most of a job"
        if limits.max_events is not None and totals.n_events >= limits.max_events:
            return f"it has {limits.max_events} events"
        return self._why_not(position, n_units + 1, pools, first=False) or "another queue was drawn for what follows"

    def _is_full(self, totals: Totals) -> bool:
        """Whether a rule about numbers ended the job, although the input ends with it as well."""
        limits = self._limits
        if limits.max_events is not None and totals.n_events >= limits.max_events:
            return True
        return totals.n_files >= limits.max_files


def cut_one(
    master: MasterInput,
    position: int,
    pools: Sequence[Pool],
    limits: JobSizeLimits,
    rules: SplitRules,
    needs: WorkNeeds,
    queue: QueueFacts,
) -> Cut:
    """The next job at this queue, from `position` on.

    Raises NoSecondaryLeft if not even one step has its secondaries.
    """
    return Cutter(master, limits, rules, needs, queue).cut(position, tuple(pools))


def _with_secondary(totals: Totals, pools: Sequence[Pool]) -> Totals:
    """The totals with the secondary files that these master files take along."""
    n_files, n_bytes = 0, 0
    for pool in pools:
        wanted = pool.files_wanted(totals.n_files, totals.n_events)
        n_bytes += pool.bytes_of(wanted)
        n_files += len(pool.units) if pool.is_whole else wanted
    return totals._replace(
        n_secondary=n_files,
        input_bytes=totals.input_bytes + n_bytes,
        effective_bytes=totals.effective_bytes + n_bytes,
    )
