"""Numbers of jobs: random seeds, and places in a sequence beside the input."""

from __future__ import annotations

from services.job_generation.policy.values import Task
from services.job_generation.specification.job_source import JobSource, Undefinable
from services.job_generation.store import jobs as store_jobs
from services.job_generation.store.jobs import Seeds
from shared.db.unit_of_work import UnitOfWork
from shared.model import command_line
from shared.model.dataset_types import SEQUENCE_OFFSET


async def seeds_for(work: UnitOfWork, definition: JobSource, text: str, n_jobs: int) -> Seeds | None:
    """Numbers of jobs, where the command line asks for random seeds, or for a sequence beside the input."""
    wanted = command_line.placeholders(text)
    for dataset in definition.datasets.values():
        gives = {"RNDMSEED", "SEQNUMBER"} if SEQUENCE_OFFSET in dataset.attributes else {"RNDMSEED"}
        if dataset.type == "random_seed" and wanted & gives:
            return await store_jobs.take_seeds(work, dataset, n_jobs)
    if "RNDMSEED" not in wanted:
        return None
    raise Undefinable("the command line asks for ${RNDMSEED}, but the task has no dataset of type random_seed")


def sequence_told(seeds: Seeds | None) -> list[int] | None:
    """The numbers of jobs in a sequence beside their input (PanDA client: %RNDM and --inDS)."""
    if seeds is None or SEQUENCE_OFFSET not in seeds.dataset.attributes:
        return None
    return [number + int(seeds.dataset.attributes[SEQUENCE_OFFSET]) for number in seeds.numbers]


def seeds_told(task: Task, seeds: Seeds | None) -> list[int] | None:
    """The seeds in the command lines of jobs, shifted by the dataset's or the task's offset."""
    if seeds is None:
        return None
    offset = int(seeds.dataset.attributes.get("offset") or task.rules.seed_offset or 0)
    return [number + offset for number in seeds.numbers]
