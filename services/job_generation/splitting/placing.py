"""Which of the ranked queues the next jobs of a chunk go to, and what is left over.

A queue is drawn by weight and takes a run of jobs (2 scouts, 25 others, or its jobChunkSize); then its weight is
multiplied by (queued + 1) / (queued + new + 1). It leaves when its cap is reached. A unit that does not fit there is
offered to the others; one that fits nowhere is left over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import repeat
from typing import Any

from services.job_generation.policy.values import NO_SECONDARY, JobInput, PlacedJob, QueueFacts, Task, Unit
from services.job_generation.splitting.cutting import Cut, Cutter
from services.job_generation.splitting.limits import limits_at, memory_refusal
from services.job_generation.splitting.master_input import master_input
from services.job_generation.splitting.placement import Placement
from services.job_generation.splitting.secondary import NoSecondaryLeft, Pool
from shared.brokerage.draw import uniform_of, weighted_choice
from shared.task.in_effect import SplitRules

RUN_OF_JOBS = 25
RUN_OF_SCOUTS = 2


#: as the classes make them, without a call of Python for each
_input_of: Callable[[tuple[Any, ...]], JobInput] = partial(tuple.__new__, JobInput)
_placed_of: Callable[[tuple[Any, ...]], PlacedJob] = partial(tuple.__new__, PlacedJob)


def _jobs_at(queue: QueueFacts, parts: Iterable[tuple[Unit, ...]]) -> Iterable[PlacedJob]:
    """Jobs at one queue, of these units of the master each."""
    return map(
        _placed_of, zip(repeat(queue), map(_input_of, zip(parts, repeat(NO_SECONDARY), strict=False)), strict=False)
    )


class _Placing:
    """The state of one run over a chunk."""

    def __init__(
        self,
        task: Task,
        units: Sequence[Unit],
        pools: Sequence[Pool],
        queues: Sequence[QueueFacts],
        *,
        scout: bool,
        max_jobs: int,
        more_follows: bool,
    ) -> None:
        self.task, self.pools = task, tuple(pools)
        self.master = master_input(units, task.rules)
        self.units = self.master.units
        self.queues = {queue.key: queue for queue in queues if queue.max_jobs is None or queue.max_jobs > 0}
        self.weights = {key: queue.weight for key, queue in self.queues.items()}
        self.queued = {key: queue.n_queued for key, queue in self.queues.items()}
        self.made = dict.fromkeys(self.queues, 0)
        self.cutters = {}
        for key, queue in self.queues.items():
            limits = limits_at(task.needs, task.rules, queue, scout=scout, is_analysis=task.is_analysis)
            self.cutters[key] = Cutter(self.master, limits, task.rules, task.needs, queue)
        self.lacks_memory = {key: memory_refusal(task.needs, queue, None) for key, queue in self.queues.items()}
        self.groups = {key: min(queue.job_chunk_size or 1, max_jobs) for key, queue in self.queues.items()}
        self.run_length = RUN_OF_SCOUTS if scout else RUN_OF_JOBS
        self.max_jobs, self.more_follows = max_jobs, more_follows
        self.sites = {queue.site for queue in self.queues.values()}
        self.takes_known = not (self.master.has_own_needs or self.pools or task.rules.skips_short_output)
        self.position = 0
        self.refused: dict[str, str] = {}
        self.unplaced: dict[str, tuple[int, str, int]] = {}
        self.short: tuple[str, Cut] | None = None
        self.waits = ""
        self.result = Placement()

    def run(self, seed: int) -> Placement:
        """Draw queues by weight and fill runs of jobs for each, until input, queues or job numbers end."""
        n_draws = 0
        try:
            while self._goes_on() and self.queues:
                open_weights = self.weights
                if self.refused:
                    open_weights = {key: weight for key, weight in self.weights.items() if key not in self.refused}
                key = weighted_choice(open_weights, uniform_of(seed + n_draws))
                n_draws += 1
                if key is not None:
                    self._fill(key)
                else:
                    self._make_do()
        except NoSecondaryLeft as shortage:
            self.result.note(shortage.reason)
            self.result.ran_out = shortage.dataset
        if self.waits:
            self.result.note(self.waits)
        self.result.leftover.extend(self.units[self.position :])
        return self.result

    def _goes_on(self) -> bool:
        return self.position < len(self.units) and len(self.result.jobs) < self.max_jobs and not self.waits

    def _fill(self, key: str) -> None:
        """A run of jobs for one queue. One that takes whole groups is given nothing where there is less."""
        queue, group = self.queues[key], self.groups[key]
        begin, pools, first = self.position, self.pools, len(self.result.jobs)
        n_left_out, refused, short = len(self.result.left_out), self.refused, self.short
        room = self.run_length if group == 1 else group
        if queue.max_jobs is not None:
            room = min(room, queue.max_jobs - self.made[key])
        why = f"takes {room} more jobs" if room < group else ""
        if self.takes_known and not why and self.lacks_memory[key] is None:
            self._take_known(key, queue, room)
        new = len(self.result.jobs) - first
        while not why and new < room and self._goes_on():
            why = self._take_one(key, queue)
            new = len(self.result.jobs) - first
        if group > 1 and new < group and not (self.waits and first == 0):
            # its jobs are cut again, for others or once more input has come
            del self.result.jobs[first:], self.result.left_out[n_left_out:]
            self.position, self.pools, new = begin, pools, 0
            self.refused, self.short = refused, short
            why = f"jobChunkSize asks for {group} jobs together" + (f", but {why}" if why else "")
        if why:
            self.refused[key] = why
        self._count(key, new)

    def _take_known(self, key: str, queue: QueueFacts, room: int) -> None:
        """The next jobs for a queue, as long as their length is known without trying."""
        ends = self.cutters[key].known_ends(self.position, min(room, self.max_jobs - len(self.result.jobs)))
        if ends:
            self.result.jobs += _jobs_at(queue, self._parts(ends))
            self.position, self.refused, self.short = ends[-1], {}, None

    def _parts(self, ends: Sequence[int]) -> Iterable[tuple[Unit, ...]]:
        """The units from this position on, parted at these places."""
        units = self.units
        if ends[-1] - self.position == len(ends):
            return zip(units[self.position : ends[-1]], strict=True)  # one by one
        return [units[start:end] for start, end in zip((self.position, *ends), ends, strict=False)]

    def _take_one(self, key: str, queue: QueueFacts) -> str:
        """Cut the next job for a queue; why there is none."""
        unit, short = self.units[self.position], self.lacks_memory[key]
        raised_mb, n_together = unit.ram_mb, self.master.inseparable(self.position)
        if n_together > 1:
            units = self.units[self.position : self.position + n_together]
            raised_mb = max((one.ram_mb for one in units if one.ram_mb is not None), default=None)
        if raised_mb is not None or unit.avoided_site is not None:
            short = memory_refusal(self.task.needs, queue, raised_mb) or self._avoided(unit, queue)
        if short is not None:
            return short
        cut = self.cutters[key].cut(self.position, self.pools)
        if cut.job is None:
            return cut.reason
        if cut.is_short:
            self.short = self.short or (key, cut)
            return cut.reason
        self._accept(key, cut)
        return ""

    def _accept(self, key: str, cut: Cut) -> None:
        """The job is made, held back as more input would make it longer, or left out as too short for the task."""
        assert cut.job is not None
        lacks = lacking(cut.job, self.task.rules) if self.task.rules.skips_short_output else ""
        if not cut.is_full and self.more_follows and (lacks or self.result.jobs):
            self.waits = lacks or f"more input follows: {cut.job.master[0].lfn} is used with it"
            return
        if lacks:
            self.result.left_out.extend(cut.job.master)
            self.result.note(lacks)
        else:
            self.result.jobs.append(PlacedJob(self.queues[key], cut.job))
            self.pools = cut.pools
        self.position, self.refused, self.short = cut.position, {}, None

    def _avoided(self, unit: Unit, queue: QueueFacts) -> str | None:
        """Why a unit is not tried again where it failed; None: nobody said so, or there is no other."""
        if unit.avoided_site != queue.site or self.sites == {queue.site}:
            return None
        return f"it failed or waited in vain at {queue.site}, and is to be tried at another site"

    def _count(self, key: str, new: int) -> None:
        self.made[key] += new
        self.weights[key] *= (self.queued[key] + 1) / (self.queued[key] + new + 1)
        self.queued[key] += new
        cap = self.queues[key].max_jobs
        if cap is not None and self.made[key] >= cap:
            del self.queues[key], self.weights[key]

    def _make_do(self) -> None:
        """No queue takes the next unit as it should be.

        A job that is only too short, or a group that is only too small, goes back to be joined by what follows. Where
        nothing follows it is made nevertheless. What does not fit at all is left over.
        """
        joins = self.more_follows and bool(self.result.jobs)
        if self.short is not None and not (joins and not self.short[1].is_full):
            key, cut = self.short
            n_made = len(self.result.jobs)
            self._accept(key, cut)
            self._count(key, len(self.result.jobs) - n_made)
            return
        groups = [key for key in self.refused if key in self.queues and self.groups[key] > 1]
        if joins and (self.short is not None or groups):
            self.waits = f"more input follows: {self._why_refused()}"
        elif groups:
            for key in groups:
                self.groups[key] = 1
                del self.refused[key]
        else:
            self._leave_one()

    def _why_refused(self) -> str:
        return "; ".join(f"{key}: {reason}" for key, reason in sorted(self.refused.items()))

    def _leave_one(self) -> None:
        """The unit at this position, with those that it may not be parted from, fits none of the queues."""
        unit = self.units[self.position]
        n_together = self.master.inseparable(self.position)
        what = unit.lfn if n_together == 1 else f"boundary {unit.boundary_id} ({n_together} units from {unit.lfn} on)"
        self._note_unplaced(what)
        self.result.leftover.extend(self.units[self.position : self.position + n_together])
        self.position += n_together
        self.refused = {}

    def _note_unplaced(self, what: str) -> None:
        """The reason of the first, and how many others have the same one."""
        why, reasons = self._why_refused(), self.result.reasons
        if why not in self.unplaced:
            self.unplaced[why] = len(reasons), what, 0
            self.result.note(f"{what} fits no queue ({why})")
            return
        place, first, others = self.unplaced[why]
        self.unplaced[why] = place, first, others + 1
        also = "does 1 other" if others == 0 else f"do {others + 1} others"
        if place < len(reasons):
            reasons[place] = f"{first} fits no queue ({why}), nor {also}"


def lacking(job: JobInput, rules: SplitRules) -> str:
    """Why skipShortOutput leaves a job out: it has fewer events, or else files, than the task asks for."""
    first = job.master[0].lfn
    wanted, n_events = rules.n_events_per_job, job.n_events
    if wanted is not None and n_events is not None:
        short = n_events < wanted
        return f"skipShortOutput: {n_events} events from {first} on are fewer than {wanted} per job" if short else ""
    wanted = rules.n_files_per_job
    if wanted is None or len(job.master) >= wanted:
        return ""
    return f"skipShortOutput: {len(job.master)} files from {first} on are fewer than {wanted} per job"


def place(
    task: Task,
    units: Sequence[Unit],
    pools: Sequence[Pool],
    queues: Sequence[QueueFacts],
    *,
    scout: bool,
    max_jobs: int,
    seed: int,
    more_follows: bool = False,
) -> Placement:
    """Cut `units` (in order) into jobs at ranked `queues`.

    Every unit ends in one job, in `leftover` or in `left_out`. The n-th draw uses the uniform number of `seed` + n.
    `more_follows`: the task has more input of this kind, so that a last job that could be longer goes back to be cut
    with it. The first job of a chunk is always made.
    """
    placing = _Placing(task, units, pools, queues, scout=scout, max_jobs=max_jobs, more_follows=more_follows)
    return placing.run(seed)
