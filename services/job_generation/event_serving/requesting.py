"""What the jobs of job sets, and jumbo jobs beside them, are built from."""

from __future__ import annotations

from collections.abc import Sequence

from services.job_generation.policy.kinds.event_service import OfJobSet
from services.job_generation.policy.values import Template
from services.job_generation.specification.building import BuildRequest
from services.job_generation.specification.job_source import JobSource
from services.job_generation.specification.numbering import seeds_told, sequence_told
from services.job_generation.splitting.placing import PlacedJob
from services.job_generation.store import jobs as store_jobs
from services.job_generation.store.jobs import Seeds
from shared.db.unit_of_work import UnitOfWork


async def request_for(
    work: UnitOfWork,
    definition: JobSource,
    kind: OfJobSet,
    text: str,
    templates: Sequence[Template],
    placed: Sequence[PlacedJob],
    seeds: Seeds | None,
    *,
    most_walltime_s: int | None = None,
) -> BuildRequest:
    """Job ids and serial numbers of logs are taken; outputs that are merged have none before that."""
    job_ids = await work.next_ids("job_ids", len(placed))
    own = [one.template_id for one in templates if one.is_log or kind.has_own_outputs]
    logs = await store_jobs.take_serials(work, own, len(placed))
    return BuildRequest(
        task=definition.task,
        kind=kind.name,
        master=definition.datasets[placed[0].job.master[0].dataset_id],
        datasets=definition.datasets,
        templates=templates,
        parameters=text,
        placed=placed,
        job_ids=job_ids,
        serials={one.template_id: logs.get(one.template_id, 0) for one in templates},
        guid_seed=job_ids[0],
        seeds=seeds_told(definition.task, seeds),
        sequence=sequence_told(seeds),
        trans_path=definition.trans_path_for(kind),
        most_walltime_s=most_walltime_s,
        owner=await store_jobs.standing_of_owner(work, definition.task),
    )
