"""Datasets of chosen sites, made from the templates of a task (JEDI: Workflow for analysis).

Jobs of an analysis task write to a dataset of their site, which is put into the container that its owner named. It is
made when the first job is sent there; task_definition registers it with its first file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from services.job_generation.policy.values import Dataset, PlacedJob, Template
from services.job_generation.specification.job_source import JobSource
from services.job_generation.store import tasks as store
from services.job_generation.store.site_datasets import insert_datasets_of_sites
from shared.db.unit_of_work import UnitOfWork
from shared.model.dataset_types import OUTPUT_TYPES, TEMPLATE_TYPES

DATASET_SEQUENCE = "dataset_ids"
_PREFIX = "tmpl_"


async def at_sites(
    work: UnitOfWork, source: JobSource, templates: Sequence[Template], placed: Sequence[PlacedJob]
) -> JobSource:
    """What jobs are made from, with the datasets of the sites that were chosen for them.

    The row of the task is locked, so that no two transactions make the dataset of a site.
    """
    sites = [one.queue.site for one in placed]
    found = await _datasets_of_sites(work, source.task.task_id, source.datasets, templates, sites)
    if not found:
        return source
    known = {**source.datasets, **{one.dataset_id: one for one in found.values()}}
    return replace(source, datasets=known, at_site=found)


async def _datasets_of_sites(
    work: UnitOfWork,
    task_id: int,
    datasets: Mapping[int, Dataset],
    templates: Sequence[Template],
    sites: Sequence[str],
) -> dict[tuple[int, str], Dataset]:
    """By template dataset and site the dataset that is written to there; what is missing is inserted."""
    ids = [one.dataset_id for one in templates if one.dataset_type in TEMPLATE_TYPES]
    if not ids:
        return {}
    known = {(one.template_id, one.site): one for one in datasets.values() if one.site is not None}
    wanted = [(dataset_id, site) for dataset_id in ids for site in dict.fromkeys(sites)]
    missing = [pair for pair in wanted if pair not in known]
    new_ids = await work.next_ids(DATASET_SEQUENCE, len(missing)) if missing else []
    made = {
        (dataset_id, site): _of_site(datasets[dataset_id], site, new_id)
        for (dataset_id, site), new_id in zip(missing, new_ids, strict=True)
    }
    if made:
        await insert_datasets_of_sites(work, task_id, list(made.values()))
        await store.move_datasets(work, task_id, OUTPUT_TYPES, "running", "jobs were sent to another site")
    return {pair: made.get(pair) or known[pair] for pair in wanted}


def _of_site(template: Dataset, site: str, dataset_id: int) -> Dataset:
    """Its name is that of the template and its own id: user.alice.hist.42 becomes user.alice.hist.42.1017."""
    return replace(
        template,
        dataset_id=dataset_id,
        name=f"{template.name}.{dataset_id}",
        type=template.type.removeprefix(_PREFIX),
        status="running",
        template_id=template.dataset_id,
        site=site,
    )
