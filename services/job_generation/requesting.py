"""Build and insert jobs, of whatever kind, at the places that were found for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from services.job_generation.generating.plugin import JobGeneration
from services.job_generation.ordering import order_keys_of_jobs
from services.job_generation.parameters import most_walltime_s
from services.job_generation.policy.counters import CounterChanges
from services.job_generation.policy.values import NOBODY, PlacedJob, Task
from services.job_generation.specification.building import BuildRequest, NewJob
from services.job_generation.specification.job_source import JobSource, Undefinable
from services.job_generation.specification.kind_of_job import SCOUT, KindOfJob
from services.job_generation.store import jobs as store_jobs
from services.job_generation.store import tasks as store
from services.job_generation.store.jobs import Batch, Seeds, ShapeIds
from services.job_generation.store.tasks import Chunk
from services.job_generation.supplying.numbering import seeds_told, sequence_told
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork
from shared.events import IDS_OF_EVENT, JobsGenerated, moves_of
from shared.model import command_line
from shared.model.batches import batches
from shared.model.dataset_types import OUTPUT_TYPES
from shared.states.task import TaskStatus

FindPlugin = Callable[[str, str], JobGeneration]


class Requesting:
    """Have jobs built by what their VO replaces, and insert them."""

    def __init__(self, parameters: Parameters, shapes: ShapeIds, find_plugin: FindPlugin) -> None:
        self._parameters, self._shapes, self._find_plugin = parameters, shapes, find_plugin

    def plugin_of(self, task: Task) -> JobGeneration:
        """What the VO of a task, or its label, replaces in job generation."""
        return self._find_plugin(task.vo or "", task.prod_source_label)

    async def request(
        self,
        work: UnitOfWork,
        source: JobSource,
        kind: KindOfJob,
        placed: Sequence[PlacedJob],
        seeds: Seeds | None = None,
        *,
        guid_seed: int | None = None,
    ) -> BuildRequest:
        """What jobs of a kind are built from: ids and serial numbers are taken. Raises Undefinable."""
        task, templates = source.task, source.templates_for(kind)
        text = source.text_for(kind)
        numbered = [one.template_id for one in templates if kind.numbers(one)]
        job_ids = await work.next_ids("job_ids", len(placed))
        first = await store_jobs.take_serials(work, numbered, len(placed)) if templates else {}
        return BuildRequest(
            task=task,
            kind=kind,
            master=source.datasets[kind.master_of(source.datasets, placed[0].job)],
            datasets=source.datasets,
            templates=templates,
            parameters=text,
            placed=placed,
            job_ids=job_ids,
            serials={one.template_id: first.get(one.template_id, 0) for one in templates},
            guid_seed=job_ids[0] if guid_seed is None else guid_seed,
            seeds=seeds_told(task, seeds),
            sequence=sequence_told(seeds),
            trans_path=source.trans_path_for(kind),
            most_walltime_s=most_walltime_s(self._parameters, task, kind),
            owner=await store_jobs.standing_of_owner(work, task) if kind.takes_turns else NOBODY,
            streams=kind.streams(source.datasets, [one.job for one in placed]),
            at_site=source.at_site,
        )

    def built(self, request: BuildRequest) -> list[NewJob]:
        """The jobs of the VO's plugin. A placeholder without a value is the task's mistake, not ours."""
        try:
            return self.plugin_of(request.task).build(request)
        except command_line.UnresolvedPlaceholder as error:
            raise Undefinable(str(error)) from error

    async def insert(
        self,
        work: UnitOfWork,
        source: JobSource,
        chunk: Chunk,
        kind: KindOfJob,
        jobs: Sequence[NewJob],
        changes: CounterChanges,
        seeds: Seeds | None = None,
        *,
        takes_input: bool = True,
        waits: bool = False,
    ) -> None:
        """Insert jobs and announce them; without `takes_input` others have their input in hand.

        Those that `waits` have no queue: no other service does anything with them.
        """
        task = source.task
        label = source.label_for(kind)
        if label:  # what pilots are told; who may take the jobs is decided by the label of the task
            jobs = [one._replace(spec={**one.spec, "prodSourceLabel": label}) for one in jobs]
        shapes = await self._shapes.intern(work, [job.requirement for job in jobs])
        keys = await order_keys_of_jobs(work, self._parameters, task, kind, jobs)
        batch = Batch(task, chunk.chunk_id, kind, jobs, source.datasets, seeds, changes, keys, takes_input, waits)
        await store_jobs.insert(work, batch, shapes)
        await store.count_chunk_jobs(work, chunk.chunk_id, len(jobs))
        for part in batches([] if waits else jobs, IDS_OF_EVENT):
            rows = (
                (task.task_id, job.queue, job.resource_type, task.gshare, task.user_name, None, job.core_count)
                for job in part
            )
            work.emit(
                JobsGenerated(
                    task_id=task.task_id,
                    chunk_id=chunk.chunk_id,
                    job_ids=tuple(job.job_id for job in part),
                    moves=moves_of(rows, "defined"),
                )
            )

    async def start_task(self, work: UnitOfWork, task: Task, chunk: Chunk) -> None:
        """The first jobs: ready -> scouting or running; output datasets are filled from now on."""
        if task.status != "ready":
            return
        status: TaskStatus = "scouting" if chunk.kind == SCOUT.name else "running"
        await store.move_datasets(work, task.task_id, OUTPUT_TYPES, "running", "first jobs generated")
        await store.move_task(work, task, status, reason=f"first jobs generated from chunk {chunk.chunk_id}")
