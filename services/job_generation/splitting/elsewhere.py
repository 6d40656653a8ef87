"""Whether input that was cut for one queue is given to others as well.

What a queue refuses when jobs are cut for it, it refuses here: memory, scratch space, walltime, the number of jobs, and
input that is to avoid its site. A job that is too short for a queue (mintime, where the number of events is dynamic)
goes to another; where all that take it ask for longer ones, it is made nevertheless.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from services.job_generation.policy.values import JobInput, PlacedJob, QueueFacts, Task
from services.job_generation.splitting.limits import (
    JobSizeLimits,
    limits_at,
    memory_refusal,
    refusal,
    too_short,
    totals_of,
)
from services.job_generation.splitting.master_input import master_input


class Elsewhere:
    """Places one input at several queues; counts the jobs that each takes.

    `placed`: jobs that were placed before, which count for their queues.
    """

    def __init__(
        self, task: Task, queues: Sequence[QueueFacts], placed: Sequence[PlacedJob] = (), *, scout: bool = False
    ) -> None:
        self._task, self._queues, self._scout = task, list(queues), scout
        self._sites = {one.site for one in queues}
        self._left = {one.key: one.max_jobs for one in queues if one.max_jobs is not None}
        for one in placed:
            self._take(one.queue, 1)

    def refusal(self, job: JobInput, queue: QueueFacts) -> str | None:
        """Why a queue does not take one more job of this input; None: it does."""
        if self._room(queue, 1) == 0:
            return f"{queue.queue} takes no more jobs"
        task, units = self._task, job.master
        avoids = any(unit.avoided_site == queue.site for unit in units)
        if avoids and self._sites != {queue.site}:
            return f"it failed or waited in vain at {queue.site}, and is to be tried at another site"
        raised_mb = max((unit.ram_mb for unit in units if unit.ram_mb is not None), default=None)
        least = max(task.rules.files_per_step, master_input(units, task.rules).inseparable(0))
        return memory_refusal(task.needs, queue, raised_mb) or refusal(
            totals_of(job), self._limits(queue), task.needs, queue, first=len(units) <= least
        )

    def refusals(self, job: JobInput, unused: Collection[str]) -> dict[str, str]:
        """Queues that do not take a job of this input, by their keys, and why.

        Those among `unused`, by name, had one that was taken back before it ran.
        """
        found = dict[str, str]()
        for queue in self._queues:
            why = "a job was taken back there before it ran" if queue.queue in unused else self.refusal(job, queue)
            if why is not None:
                found[queue.key] = f"{queue.key}: {why}"
        return found

    def too_short(self, job: JobInput, queue: QueueFacts) -> str | None:
        """Why a queue wants longer jobs than one of this input; None: it does not."""
        return too_short(totals_of(job), self._limits(queue), self._task.needs, queue)

    def _limits(self, queue: QueueFacts) -> JobSizeLimits:
        task = self._task
        return limits_at(task.needs, task.rules, queue, scout=self._scout, is_analysis=task.is_analysis)

    def spread(self, drawn: PlacedJob) -> list[PlacedJob]:
        """Jobs of an input: nEsConsumers at the queue that was drawn, and at the best ones of other sites.

        nSitesPerJob sites in all, or as many as take it; the first one, at the queue that was drawn, is counted before.

        Example: two consumers, two sites, drawn A of site a, ranked A, B (site a), C (site c), D: two at A, two at C.
        With one more job allowed at C: two at A, one at C. Source: JEDI, Event service.
        """
        rules = self._task.rules
        jobs, sites = [drawn, *self._at(drawn.queue, drawn.job, rules.n_consumers - 1)], {drawn.queue.site}
        for queue in self._queues:
            if len(sites) >= rules.n_sites_per_job:
                break
            takes = self.refusal(drawn.job, queue) is None and self.too_short(drawn.job, queue) is None
            if takes and queue.site not in sites:
                jobs += self._at(queue, drawn.job, rules.n_consumers)
                sites.add(queue.site)
        return jobs

    def draw(self, job: JobInput, number: int) -> PlacedJob | str:
        """The job at the first queue that takes it, counted from this one on in turn; or why none does.

        A queue that asks for longer jobs is the last choice.
        """
        refused, short = list[str](), list[QueueFacts]()
        for queue in self._in_turn(number):
            why = self.refusal(job, queue)
            if why is not None:
                refused.append(f"{queue.key}: {why}")
            elif self.too_short(job, queue) is not None:
                short.append(queue)
            else:
                return self._drawn(queue, job)
        if short:
            return self._drawn(short[0], job)
        return f"{job.master[0].lfn} fits no queue ({'; '.join(sorted(refused))})"

    def next_for(self, job: JobInput, number: int) -> QueueFacts | None:
        """The queue of a further attempt at input that jobs were made of before; None: there is no queue.

        Each attempt is one queue further down than the last, then from the top again; queues that do not take the job
        or ask for longer ones are passed over, as long as there is another.
        """
        in_turn = self._in_turn(number)
        takes = [queue for queue in in_turn if self.refusal(job, queue) is None]
        long_enough = (queue for queue in takes if self.too_short(job, queue) is None)
        return next(long_enough, next(iter(takes or in_turn), None))

    def _in_turn(self, number: int) -> list[QueueFacts]:
        first = number % len(self._queues) if self._queues else 0
        return [*self._queues[first:], *self._queues[:first]]

    def _drawn(self, queue: QueueFacts, job: JobInput) -> PlacedJob:
        self._take(queue, 1)
        return PlacedJob(queue, job)

    def _at(self, queue: QueueFacts, job: JobInput, n_jobs: int) -> list[PlacedJob]:
        n_jobs = self._room(queue, n_jobs)
        self._take(queue, n_jobs)
        return [PlacedJob(queue, job) for _ in range(n_jobs)]

    def _room(self, queue: QueueFacts, n_jobs: int) -> int:
        return max(0, min(n_jobs, self._left.get(queue.key, n_jobs)))

    def _take(self, queue: QueueFacts, n_jobs: int) -> None:
        if queue.key in self._left:
            self._left[queue.key] -= n_jobs
