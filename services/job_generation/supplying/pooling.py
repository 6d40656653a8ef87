"""What the jobs of a chunk may take of secondary datasets, whose files follow those of the master."""

from __future__ import annotations

from collections.abc import Sequence

from services.job_generation.policy.values import Dataset, Unit
from services.job_generation.specification.job_source import JobSource, Undefinable
from services.job_generation.specification.job_xml import is_described, pool_of_jobs, xml_of
from services.job_generation.splitting.secondary import Pool
from services.job_generation.store import units as store_units
from shared.brokerage.smallest_job import counted_events, most_secondary_files
from shared.db.unit_of_work import UnitOfWork
from shared.model.dataset_types import INPUT_TYPES, SOURCES_STREAM

MOST_SECONDARY_FILES = 10_000


async def pools_of_secondaries(
    work: UnitOfWork, definition: JobSource, masters: Sequence[Unit], seed: int
) -> list[Pool]:
    """What is open of each secondary dataset: in order, or as drawn for this chunk where it is random.

    A random dataset that is also repeated is drawn again for each chunk: within a chunk a file comes again only
    when all the others were taken (JEDI, Dataset attributes; that jobs of a chunk draw from one order is the choice
    taken here).
    """
    pools, described = [], xml_of(definition.task)
    for dataset_id in sorted(definition.datasets):
        dataset = definition.datasets[dataset_id]
        if dataset.type not in INPUT_TYPES or dataset.is_master or dataset.stream_name == SOURCES_STREAM:
            continue
        if described is not None and is_described(described, dataset):
            boundaries = sorted({unit.boundary_id for unit in masters if unit.boundary_id is not None})
            of_jobs = await store_units.ready_units_of_boundaries(work, dataset_id, boundaries)
            pools.append(pool_of_jobs(Pool(dataset, tuple(of_jobs))))
            continue
        wanted = await _files_for(work, dataset, masters)
        if dataset.attributes.get("random"):
            drawn = await store_units.random_ready_units(work, dataset_id, wanted, seed)
            pools.append(Pool(dataset, tuple(drawn)))
            continue
        start = _start_of(definition, dataset)
        if wanted < dataset.n_files and dataset.is_shared:
            pools.append(Pool(dataset, tuple(await _next_of_ring(work, dataset_id, start, wanted))))
            continue
        units = await store_units.ready_units(work, dataset_id, wanted)
        pools.append(Pool(dataset, tuple(units), start % max(1, len(units))))
    return pools


async def _next_of_ring(work: UnitOfWork, dataset_id: int, start: int, wanted: int) -> list[Unit]:
    """So many files of a dataset from `start` on; after its last comes its first again."""
    units = await store_units.ready_units(work, dataset_id, wanted, after=start)
    if len(units) < wanted:
        units += await store_units.ready_units(work, dataset_id, min(start, wanted - len(units)))
    return units


async def _files_for(work: UnitOfWork, dataset: Dataset, masters: Sequence[Unit]) -> int:
    """The most files of a secondary dataset that jobs of these units take.

    All of a shared one that is not too large, else what its jobs need; with eventRatio as many as hold that many
    events, and one more for each job, which takes whole files. Raises Undefinable for a job with too many files.
    """
    attributes = dataset.attributes
    if attributes.get("nosplit") and dataset.n_files > MOST_SECONDARY_FILES:
        raise Undefinable(
            f"each job takes all {dataset.n_files} files of secondary dataset {dataset.name} (nosplit); "
            f"allowed: at most {MOST_SECONDARY_FILES}"
        )
    if dataset.is_shared and dataset.n_files <= MOST_SECONDARY_FILES:
        return dataset.n_files
    wanted = await _files_needed(work, dataset, masters)
    return min(dataset.n_files, max(wanted, MOST_SECONDARY_FILES)) if dataset.is_shared else wanted


async def _files_needed(work: UnitOfWork, dataset: Dataset, masters: Sequence[Unit]) -> int:
    """By eventRatio, nFilesPerJob or ratio; what is not shared goes on in the next chunk beyond a limit."""
    attributes = dataset.attributes
    if attributes.get("eventRatio") and not attributes.get("nFilesPerJob"):
        n_events = float(attributes["eventRatio"]) * sum(counted_events(unit.events) for unit in masters)
        most = dataset.n_files if dataset.is_shared else MOST_SECONDARY_FILES
        return len(masters) + await store_units.files_holding(work, dataset.dataset_id, n_events, most)
    needed = most_secondary_files(float(attributes.get("nFilesPerJob") or attributes.get("ratio") or 1), len(masters))
    return needed if dataset.is_shared else min(needed, MOST_SECONDARY_FILES)


def _start_of(definition: JobSource, dataset: Dataset) -> int:
    """Where a repeated dataset goes on: as far as the master files used so far have taken it."""
    if not dataset.is_shared or not dataset.n_files:
        return 0
    used = sum(one.n_files_used for one in definition.datasets.values() if one.is_master)
    return int(used * float(dataset.attributes.get("ratio") or 1)) % dataset.n_files
