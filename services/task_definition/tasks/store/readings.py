"""How far the input of tasks is read, and the units that a slice adds or changes.

Each function runs in the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import asyncpg

from services.task_definition.tasks.policy.input_read import InputRead, UnitChange, Whereabouts
from services.task_definition.tasks.policy.input_wishes import InputWish, Limits, Read
from shared.catalogue.port import FROZEN
from shared.db.queries import Queries
from shared.db.unit_of_work import UnitOfWork
from shared.states.task import TaskStatus

SQL = Queries.beside(__file__)
#: datasets of a task that one slice may take up: a container may have thousands of small ones
DATASETS_OF_SLICE = 200


@dataclass(frozen=True)
class DatasetReading:
    """A dataset that is being read: how far, and where the catalogue has it (None: nowhere any more)."""

    dataset_id: int
    task_id: int
    stage: str
    wanted: InputWish
    after_lfn: str
    after_block: int | None
    after_file: int
    has_new: bool
    n_skipped: int
    catalogue_id: int | None


@dataclass(frozen=True)
class LoadedSlice:
    """What a slice added, and how many files of the catalogue it went through.

    `without_events`: ids of files that should be cut by events, or handed out in ranges of them, and have none.
    `n_older`: attempts of files of which there are newer ones; `n_not_made`: files that the parent has not finished;
    `n_skipped`: first files that the task leaves out. `is_cut`: it ended early, as its files make many units.
    `n_too_many`: nothing was added, as one file makes so many.
    """

    n_listed: int
    after_file: int | None
    n_older: int
    n_units: int
    n_files: int
    n_events: int | None
    is_cut: bool = False
    n_too_many: int | None = None
    n_not_made: int = 0
    n_skipped: int = 0
    after_block: int | None = None
    without_events: Sequence[int] = ()


async def begin(work: UnitOfWork, task_id: int) -> None:
    await SQL.run(work.connection, "begin_reading", task_id=task_id)


async def add(work: UnitOfWork, task_id: int, dataset_id: int, position: int, stage: str, wanted: InputWish) -> None:
    await SQL.run(
        work.connection,
        "read_dataset",
        task_id=task_id,
        dataset_id=dataset_id,
        position=position,
        stage=stage,
        request=wanted.stored(),
        name=wanted.name,
    )


async def next_task(work: UnitOfWork, task_id: int | None = None) -> int | None:
    """Hold the task whose next slice is due, or this one, for one reader at a time."""
    found: int | None = await SQL.value(work.connection, "next_reading", task_id=task_id)
    return found


async def state(work: UnitOfWork, task_id: int) -> bool | None:
    """Tell whether all input of a task is read; None: nothing is being read of it."""
    found: bool | None = await SQL.value(work.connection, "state_of_reading", task_id=task_id)
    return found


async def tasks_read(work: UnitOfWork, at_most: int) -> list[int]:
    return [row["task_id"] for row in await SQL.rows(work.connection, "read_readings", at_most=at_most)]


async def to_read(work: UnitOfWork, task_id: int) -> list[DatasetReading]:
    rows = await SQL.rows(work.connection, "datasets_to_read", task_id=task_id, at_most=DATASETS_OF_SLICE)
    return [_reading(row, task_id) for row in rows]


async def read_so_far(work: UnitOfWork, one: DatasetReading) -> Read:
    """Count what limits count: of a master the whole reading of all masters, of a secondary its own."""
    row = await SQL.one(work.connection, "read_so_far", task_id=one.task_id, dataset_id=one.dataset_id)
    if one.wanted.is_master:
        of_task = row["units_of_task"]
        return Read(row["files_of_masters"], row["events_of_masters"], row["units_of_masters"], of_task)
    return Read(row["n_files"], 0, row["units_of_masters"])


async def copies(work: UnitOfWork, one: DatasetReading) -> dict[str, bool]:
    """Tell whether the copy is complete, by storage."""
    rows = await SQL.rows(work.connection, "where_copies_are", catalogue_id=one.catalogue_id)
    return {row["storage"]: row["complete"] for row in rows}


async def load_slice(
    work: UnitOfWork, one: DatasetReading, limits: Limits, where: Whereabouts, size: int
) -> LoadedSlice:
    """Add the next files of a dataset as units, from at most `size` files of the catalogue."""
    if one.wanted.is_whole and where.is_here and limits.max_events is None:
        return await _load_whole_files(work, one, limits, size)
    return await _load_as_wished(work, one, limits, where, size)


async def _load_whole_files(work: UnitOfWork, one: DatasetReading, limits: Limits, size: int) -> LoadedSlice:
    wanted = one.wanted
    row = await SQL.one(
        work.connection,
        "load_whole_files",
        timeout_s=60,
        task_id=one.task_id,
        dataset_id=one.dataset_id,
        catalogue_id=one.catalogue_id,
        size=size,
        after_file=one.after_file,
        max_files=limits.max_files,
        first_event=limits.first_event,
        max_attempt=wanted.max_attempt,
        max_failure=wanted.max_failure,
        events_per_file=wanted.events_per_file,
        counts_in_file=wanted.counts_in_file,
        takes_older=wanted.takes_older,
        here=wanted.with_copy,
    )
    return LoadedSlice(**dict(row), n_files=row["n_units"])


async def _load_as_wished(
    work: UnitOfWork, one: DatasetReading, limits: Limits, where: Whereabouts, size: int
) -> LoadedSlice:
    wanted = one.wanted
    row = await SQL.one(
        work.connection,
        "load_slice",
        timeout_s=60,
        task_id=one.task_id,
        dataset_id=one.dataset_id,
        catalogue_id=one.catalogue_id,
        size=size,
        after_block=one.after_block,
        after_file=one.after_file,
        **asdict(limits),
        max_attempt=wanted.max_attempt,
        max_failure=wanted.max_failure,
        events_per_unit=wanted.events_per_unit,
        needs_events=wanted.needs_events,
        events_per_file=wanted.events_per_file,
        names=None if wanted.names is None else list(wanted.names),
        boundaries=None if wanted.boundaries is None else list(wanted.boundaries),
        include=list(wanted.include),
        exclude=list(wanted.exclude),
        skip_files_used_by=list(wanted.skip_files_used_by),
        by_lumi_block=wanted.by_lumi_block,
        aligned_to=wanted.aligned_to,
        skip_short_of=wanted.skip_short_of,
        counts_in_file=wanted.counts_in_file,
        respect_lumi_blocks=wanted.respect_lumi_blocks,
        is_here=where.is_here,
        not_at=where.not_at,
        elsewhere=wanted.without_copy,
        is_new=wanted.is_new,
        takes_older=wanted.takes_older,
        here=wanted.with_copy,
        made_by=wanted.made_by,
        name=wanted.name,
        left_to_skip=max(0, wanted.skip_files - one.n_skipped),
        most_units=size * wanted.units_per_file,
        most_units_of_file=wanted.most.of_file,
    )
    return LoadedSlice(**dict(row))


async def note_loaded(work: UnitOfWork, one: DatasetReading, loaded: LoadedSlice, stage: str) -> None:
    counts = {"n_units": loaded.n_units, "n_events": loaded.n_events}
    await SQL.run(
        work.connection,
        "note_loaded",
        dataset_id=one.dataset_id,
        stage=stage,
        after_block=loaded.after_block,
        after_file=one.after_file if loaded.after_file is None else loaded.after_file,
        n_files=loaded.n_files,
        n_older=loaded.n_older,
        n_not_made=loaded.n_not_made,
        n_skipped=loaded.n_skipped,
        **counts,
    )
    if loaded.n_units:
        await SQL.run(work.connection, "count_loaded", dataset_id=one.dataset_id, **counts)


async def note_too_many(work: UnitOfWork, one: DatasetReading, said: str) -> None:
    await SQL.run(work.connection, "note_too_many", task_id=one.task_id, dataset_id=one.dataset_id, too_many=said)


async def compare_slice(work: UnitOfWork, one: DatasetReading, where: Whereabouts, size: int) -> asyncpg.Record:
    """Compare the next units with the catalogue; give those that differ.

    `last`: the name where the slice ends (None: all was compared); `has_new`: the catalogue has files that the task
    has not; `n_held`: units that were gone through.
    """
    await SQL.run(work.connection, "walk_by_name", begins=True)
    found = await SQL.one(
        work.connection,
        "compare_slice",
        timeout_s=60,
        dataset_id=one.dataset_id,
        catalogue_id=one.catalogue_id,
        after_lfn=one.after_lfn,
        size=size,
        is_here=where.is_here,
        not_at=where.not_at,
        elsewhere=one.wanted.without_copy,
        compares_events=one.wanted.compares_events,
        takes_older=one.wanted.takes_older,
        here=one.wanted.with_copy,
        made_by=one.wanted.made_by,
        name=one.wanted.name,
    )
    await SQL.run(work.connection, "walk_by_name", begins=False)
    return found


async def note_compared(
    work: UnitOfWork,
    one: DatasetReading,
    *,
    stage: str,
    last: str | None = None,
    n_changed: int = 0,
    has_new: bool = False,
    has_owned: bool = False,
) -> None:
    found: dict[str, Any] = {"n_changed": n_changed, "stage": stage, "has_new": has_new, "has_owned": has_owned}
    after = one.after_lfn if last is None else last
    await SQL.run(work.connection, "note_compared", dataset_id=one.dataset_id, after_lfn=after, **found)


async def try_lock_task(work: UnitOfWork, task_id: int) -> TaskStatus | None:
    """Hold the row of a task and give its state; None if others have it.

    Nobody waits for it here: that would make others wait.
    """
    found: TaskStatus | None = await SQL.value(work.connection, "try_lock_task", task_id=task_id)
    return found


async def with_events_now(work: UnitOfWork, reading: DatasetReading) -> list[int]:
    """Find units without events of which the catalogue knows the events by now."""
    names = {"dataset_id": reading.dataset_id, "catalogue_id": reading.catalogue_id}
    return [row["file_id"] for row in await SQL.rows(work.connection, "with_events_now", **names)]


async def forget_units(work: UnitOfWork, file_ids: Sequence[int]) -> None:
    """Delete units that no job has; what is read of their files makes others."""
    await SQL.run(work.connection, "forget_units", file_ids=list(file_ids))


async def change_units(work: UnitOfWork, dataset_id: int, changes: Sequence[UnitChange]) -> list[asyncpg.Record]:
    """Make units what they should be, if they still are what they were; the dataset's events follow."""
    rows = await SQL.rows(
        work.connection, "change_units", ids=[one.file_id for one in changes], was=[one.was for one in changes],
        statuses=[one.status for one in changes], sizes=[one.size_bytes for one in changes],
        checksums=[one.checksum for one in changes], events=[one.n_events for one in changes],
    )  # fmt: skip
    await SQL.run(work.connection, "recount_events", dataset_id=dataset_id)
    return rows


async def note_slice(work: UnitOfWork, task_id: int, *, is_read: bool) -> None:
    await SQL.run(work.connection, "note_slice", task_id=task_id, is_read=is_read)


async def read_of(work: UnitOfWork, task_id: int) -> list[InputRead]:
    """Read each dataset that was read, with what it has now."""
    rows = await SQL.rows(work.connection, "readings_of_task", task_id=task_id)
    return [await _input_read(work, row) for row in rows]


async def _input_read(work: UnitOfWork, row: asyncpg.Record) -> InputRead:
    wanted = InputWish.from_stored(row["request"])
    absent: Sequence[str] = ()
    if wanted.names is not None and wanted.needs_names:
        absent = await SQL.value(
            work.connection,
            "names_not_there",
            dataset_id=row["dataset_id"],
            names=sorted(set(wanted.names)),
            takes_older=wanted.takes_older,
        )
    return InputRead(
        row["dataset_id"],
        wanted,
        row["state"] or FROZEN,
        row["units_of_dataset"],
        row["n_units"],
        row["n_untaken"],
        row["n_files_to_be_used"],
        row["n_changed"],
        tuple(absent),
        row["n_older"],
        row["n_off_index"],
        row["n_not_made"],
        row["too_many"],
    )


async def unusable(work: UnitOfWork, dataset_ids: Sequence[int]) -> dict[Any, int]:
    rows = await SQL.rows(work.connection, "usable_units", dataset_ids=list(dataset_ids))
    return {row["status"]: row["n_units"] for row in rows}


async def used(work: UnitOfWork, task_id: int, *, counts_files: bool) -> tuple[int, int]:
    """Count distinct files (if they are to be counted) and events among the units of a task's masters."""
    row = await SQL.one(work.connection, "used_by_masters", timeout_s=60, task_id=task_id, counts_files=counts_files)
    return row["n_files"], row["n_events"]


async def end(work: UnitOfWork, task_id: int) -> None:
    await SQL.run(work.connection, "end_reading", task_id=task_id)


async def drop_ended(work: UnitOfWork) -> None:
    await SQL.run(work.connection, "dropped_readings")


def _reading(row: asyncpg.Record, task_id: int) -> DatasetReading:
    return DatasetReading(
        row["dataset_id"],
        task_id,
        row["stage"],
        InputWish.from_stored(row["request"]),
        *(row[name] for name in ("after_lfn", "after_block", "after_file", "has_new", "n_skipped", "catalogue_id")),
    )
