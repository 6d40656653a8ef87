"""How much input the next chunk takes.

Source: JEDI, Using scout jobs; Workflow for tasks with input datasets.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from services.job_generation.policy.values import Dataset
from shared.model.dataset_types import INPUT_TYPES
from shared.states.task import TaskStatus
from shared.task.in_effect import SplitRules
from shared.task.needs import WorkNeeds

GENERATING: tuple[TaskStatus, ...] = ("ready", "scouting", "running")


@dataclass(frozen=True)
class Pick:
    """Take up to `n_files` files of `dataset_id` for a chunk of this kind.

    `ram_mb`: those whose memory was raised to that, None: those that need the task's memory.
    """

    dataset_id: int
    n_files: int
    kind: str
    ram_mb: int | None = None


def needs_key(needs: WorkNeeds) -> int:
    """A number that changes with what a task asks of a queue.

    It shows whether a chunk was offered for what the task asks now.
    """
    return zlib.crc32(repr(needs).encode())


def wants_scouts(status: TaskStatus, rules: SplitRules, *, scouts_made: bool, all_opened: bool) -> bool:
    """Whether jobs made now are scouts.

    A task that is scouting makes scouts; a ready one does unless it skips them or has gone through them before, which
    shows by scout jobs made and all input opened (a retry then starts without scouts).
    """
    if status == "scouting":
        return True
    return status == "ready" and not rules.skip_scout and not (scouts_made and all_opened)


def open_files(dataset: Dataset) -> int:
    """Files of a dataset that may be used and are not."""
    return min(dataset.n_files_to_be_used, dataset.n_files) - dataset.n_files_used


def has_open_input(dataset: Dataset) -> bool:
    """Whether jobs may still be made of it."""
    return dataset.type in INPUT_TYPES and dataset.is_master and dataset.status == "ready" and open_files(dataset) > 0


def next_pick(
    datasets: Sequence[Dataset],
    rules: SplitRules,
    *,
    scouts: bool,
    max_files: int,
    max_jobs: int,
    busy: frozenset[tuple[int, int | None]],
    raised: Mapping[int, Sequence[int]] | None = None,
    awaited: Collection[int] = (),
    typical_files: int | None = None,
) -> Pick | None:
    """The first master dataset with open files that no offered chunk is working on, or None.

    Units whose memory was raised come first (`raised`, by dataset), each memory in a chunk of its own. `busy` are the
    datasets and memory (None: the task's) that are worked on, or wait. Never more files than `max_jobs` jobs can take
    when the number of files of a job is known; where it is not, than they typically take (`typical_files`, TYPNFILES).
    Never fewer than one job takes, or nChunksToWait jobs, while more is waited for in the dataset (`awaited`), unless
    the task takes input at once (noInputPooling).
    """
    for dataset in sorted(datasets, key=lambda one: one.dataset_id):
        if not dataset.is_master or dataset.status != "ready":
            continue
        classes = (*(raised or {}).get(dataset.dataset_id, ()), None)
        free = [ram_mb for ram_mb in classes if (dataset.dataset_id, ram_mb) not in busy]
        if not free:
            continue
        left = open_files(dataset)
        if left <= 0:
            continue
        if left < rules.files_to_wait_for and dataset.dataset_id in awaited:
            continue
        limit = min(left, max(max_files, rules.n_files_per_job or 1))
        if rules.n_files_per_job is not None or rules.n_events_per_job is not None:
            limit = min(limit, max_jobs * (rules.n_files_per_job or 1))
        elif typical_files is not None:
            limit = min(limit, max_jobs * typical_files)
        return Pick(dataset.dataset_id, limit, "scout" if scouts else "normal", free[0])
    return None
