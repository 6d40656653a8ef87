"""What the steps of a task ask each kind of jobs.

A kind is a room in `kinds/` with the same five doors, and each step has one of them:

=============  ================================================================================  ==========
`offers`       may input of the task be taken into chunks now                                    offering
`inputs`       what one job of it takes of a brokered chunk, and where                           making
`request`      what is asked for at the places that were found: the jobs, and what is beside     making
`ended`        what the end of its jobs means for their files                                    counting
`follows`      what it wants next: jobs, chunks, or another state of the task                    settling
=============  ================================================================================  ==========

`inputs`, `request` and `ended` are chains: a kind does what is its own and hands the remainder to `rest`, which is the
door of the kind registered after it, and at the end the plain step. A kind that has nothing to do with a task is one
link that changes nothing, so that any kind may be left out. Kinds are registered in `kinds.registered`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, ClassVar, NamedTuple

from services.job_generation.policy.counters import CounterChanges
from services.job_generation.policy.values import PlacedJob, QueueFacts, Task
from services.job_generation.specification.job_source import JobSource
from services.job_generation.specification.kind_of_job import KindOfJob
from services.job_generation.splitting.placement import Placement
from services.job_generation.store.results import EndedJob
from services.job_generation.store.tasks import Chunk, LockedTask
from shared.db.unit_of_work import UnitOfWork
from shared.events import ChunkBrokered, ChunkUnplaceable
from shared.runtime.service import Periodic
from shared.states.task import TaskStatus


@dataclass(frozen=True)
class BrokeredChunk:
    """A chunk whose queues are known, and what its jobs are made from.

    `cut_for`: queues that its input is cut for, where that are not all. `fit`: what a kind does to the jobs that were
    cut, before they are counted; whether some of their input waits for it.
    """

    held: LockedTask
    source: JobSource
    chunk: Chunk
    queues: Sequence[QueueFacts]
    cut_for: Sequence[QueueFacts] | None = None
    fit: Callable[[Placement], bool] | None = None

    @property
    def task(self) -> Task:
        """The task with its texts."""
        return self.source.task


class Prompt(NamedTuple):
    """Why a task is looked at.

    `force`: it is to go on although its `retry_at` has not come. `command`: one that took effect just now. `released`:
    it waited long enough or was woken, `woken`: only these parts of it, by name; empty: all that waits.
    """

    force: bool = False
    command: str | None = None
    released: bool = False
    woken: frozenset[str] = frozenset()


class Followed(NamedTuple):
    """What a kind did for a task: jobs or files now on their way, and whether the task moved."""

    n_offered: int = 0
    has_moved: bool = False


NEWS, NOTHING = Prompt(), Followed()
#: make the jobs of a chunk: how many inputs of jobs were placed
MakeJobs = Callable[[BrokeredChunk], Awaitable[int]]
#: make a job at each place: their ids
RequestJobs = Callable[[Sequence[PlacedJob]], Awaitable[Sequence[int]]]
#: count jobs that ended
CountJobs = Callable[[Sequence[EndedJob]], Awaitable[None]]


class Kind:
    """A kind of jobs; what a subclass does not say is as on the plain path."""

    #: what its jobs differ in; None: it has no chunks, and what its jobs differ in is its own matter
    job: ClassVar[KindOfJob | None] = None

    async def offers(self, work: UnitOfWork, task: Task) -> bool:
        """Say whether input of the task may be taken into chunks now; where not, the task is told why."""
        return True

    async def inputs(self, work: UnitOfWork, at: BrokeredChunk, rest: MakeJobs) -> int:
        """Make the jobs of a chunk of this kind, or change what others take; how many inputs were placed.

        What is not used is given back. Raises Undefinable.
        """
        return await rest(at)

    async def request(
        self,
        work: UnitOfWork,
        at: BrokeredChunk,
        placed: Sequence[PlacedJob],
        changes: CounterChanges,
        rest: RequestJobs,
    ) -> Sequence[int]:
        """Make the jobs of placed input, with what is beside them; their ids. Raises Undefinable."""
        return await rest(placed)

    async def ended(
        self,
        work: UnitOfWork,
        held: LockedTask,
        jobs: Sequence[EndedJob],
        changes: CounterChanges,
        rest: CountJobs,
    ) -> None:
        """Count jobs of this kind that ended or wait to be merged, and those that end with them."""
        await rest(jobs)

    async def follows(self, work: UnitOfWork, held: LockedTask, prompt: Prompt) -> Followed:
        """Do what the kind wants next of a task that changed."""
        return NOTHING

    async def prompted(self, work: UnitOfWork, task: Task, prompt: Prompt) -> None:
        """End the wait of what waits by itself, if what happened to the task ends it."""

    # -- what becomes of its chunks before they are jobs

    async def told(self, work: UnitOfWork, task: Task, event: ChunkBrokered | ChunkUnplaceable) -> None:
        """Keep what the brokerage said besides."""

    async def unplaced(self, work: UnitOfWork, held: LockedTask, event: ChunkUnplaceable) -> bool:
        """Make the jobs of a chunk that no queue takes in another way; whether it did."""
        return False

    async def sets_wait(self, work: UnitOfWork, task: Task, retry_at: datetime) -> None:
        """Keep when job sets are offered again that wait for a queue by themselves."""

    async def given_back(self, work: UnitOfWork, task: Task, file_ids: Sequence[int], changes: CounterChanges) -> None:
        """End files of a chunk of this kind that are ready again, but wanted by nobody any more."""

    # -- what it asks of the service

    def hears(self) -> Sequence[tuple[type[Any], Callable[[Any, UnitOfWork], Awaitable[None]]]]:
        """Events that it alone consumes, with what it does about them."""
        return ()

    def periodic(self) -> Sequence[Periodic]:
        """Work that it does from time to time."""
        return ()


class Kinds:
    """The kinds of this service, in the order in which their doors are asked."""

    def __init__(self) -> None:
        self._kinds: list[Kind] = []
        self._jobs: dict[str, KindOfJob] = {}

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._kinds)

    def add(self, kind: Kind) -> None:
        """Register one more kind behind the others."""
        self._kinds.append(kind)
        if kind.job is not None:
            self._jobs[kind.job.name] = kind.job

    def job(self, name: str) -> KindOfJob:
        """What chunks and jobs of this name differ in. Raises KeyError for an unknown one."""
        return self._jobs[name]

    def of(self, chunk: Chunk) -> Kind:
        """The kind that a chunk is of."""
        return next(one for one in self._kinds if one.job is not None and one.job.name == chunk.kind)

    @property
    def chunks_wanted_while(self) -> frozenset[TaskStatus]:
        """States of a task in which any chunk of it becomes jobs."""
        return frozenset(status for one in self._jobs.values() for status in one.chunks_wanted_while)

    def inputs(self, work: UnitOfWork, plain: MakeJobs) -> MakeJobs:
        """The doors `inputs` one after another, and the plain way behind them."""
        for kind in reversed(self._kinds):
            plain = partial(kind.inputs, work, rest=plain)
        return plain

    def request(self, work: UnitOfWork, at: BrokeredChunk, changes: CounterChanges, plain: RequestJobs) -> RequestJobs:
        """The doors `request` one after another, and the plain way behind them."""
        for kind in reversed(self._kinds):
            plain = partial(kind.request, work, at, changes=changes, rest=plain)
        return plain

    def ended(self, work: UnitOfWork, held: LockedTask, changes: CounterChanges, plain: CountJobs) -> CountJobs:
        """The doors `ended` one after another, and the plain way behind them."""
        for kind in reversed(self._kinds):
            plain = partial(kind.ended, work, held, changes=changes, rest=plain)
        return plain
