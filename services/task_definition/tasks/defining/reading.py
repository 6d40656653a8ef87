"""Reads the input of tasks from the catalogue, slice by slice (JEDI: Contents Feeder).

A slice is one transaction of a few tenths of a second, whatever the machine does besides: it is made of pieces, and
takes up no further one when its time is over. It holds the row of the reading, not that of the task, so that
commands, jobs and their results go on meanwhile; a reader that is killed leaves everything where its last slice ended.
A dataset that was read before is compared first: units that no job has become what the catalogue says of them, for
which the task's row is held at the end of the slice, if nobody else has it. Then what is new is loaded.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from services.task_definition.tasks.policy.input_read import UnitChange, Whereabouts, changed_unit, whereabouts
from services.task_definition.tasks.policy.input_wishes import InputWish, Read
from services.task_definition.tasks.policy.unit_limits import MOST_UNITS_OF_FILE, told_too_many
from services.task_definition.tasks.store import readings as store_readings
from services.task_definition.tasks.store.numbering import number_units
from services.task_definition.tasks.store.older_files import know_older_files
from services.task_definition.tasks.store.readings import DatasetReading, LoadedSlice
from shared.db.unit_of_work import UnitOfWork
from shared.snapshot import KnownGrid
from shared.states import FILE, Owner
from shared.states.file import FileStatus
from shared.states.task import FINAL

#: files that are loaded in one transaction at most, and seconds after which it takes up no further piece
FILES_OF_SLICE, SLICE_S = 16_000, 0.25
#: files of a piece, and so many that a slice has whatever the time is: small input is read at once
FILES_OF_PIECE, FILES_AT_LEAST = 4_000, 500
#: names that a piece compares; to compare so many takes as long as to load a fifth of them
NAMES_OF_PIECE, COMPARED_LIKE_ONE_LOADED = 5_000, 5
#: names that are compared with each other while the task's row is held
MOST_NAMES_OF_HELD = 50_000
#: seconds, from any time on
Clock = Callable[[], float]
#: units that jobs have, or are about to: what becomes of them is for their jobs
OWNED: tuple[FileStatus, ...] = ("picked", "running")
NUMBER, COMPARE, LOAD, READ = "number", "compare", "load", "read"


@dataclass(frozen=True)
class ReadSlice:
    """What became of one: of which task, and whether it got on (False: others have the task's row)."""

    task_id: int
    got_on: bool
    is_read: bool


@dataclass(frozen=True)
class _Part:
    """What was read of a dataset, counted in files that are loaded; whether it is read to its end."""

    n_files: int
    is_read: bool
    got_on: bool = True


class ContentsReader:
    """One slice at a time."""

    def __init__(
        self,
        grid: KnownGrid,
        *,
        files_of_slice: int = FILES_OF_SLICE,
        files_of_piece: int = FILES_OF_PIECE,
        files_at_least: int = FILES_AT_LEAST,
        names_of_piece: int = NAMES_OF_PIECE,
        clock: Clock = time.monotonic,
    ) -> None:
        self._grid, self._clock = grid, clock
        self._files_of_slice, self._files_of_piece = files_of_slice, files_of_piece
        self._files_at_least, self._names_of_piece = files_at_least, names_of_piece

    async def read_slice(self, work: UnitOfWork, task_id: int | None = None) -> ReadSlice | None:
        """Read on where a task waited longest, or where this one is; None: nothing is to be read.

        With `task_id` the caller holds the task's row.
        """
        found = await store_readings.next_task(work, task_id)
        if found is None:
            return None
        began, left, got_on = self._clock(), self._files_of_slice, True
        datasets = await store_readings.to_read(work, found)
        while datasets and got_on and self._goes_on(left, began):
            for one in datasets:
                part = await self._read(work, one, min(left, self._files_of_piece), is_held=task_id is not None)
                left -= part.n_files
                got_on = part.got_on
                if not part.is_read or not self._goes_on(left, began):
                    break
            datasets = await store_readings.to_read(work, found)
        await store_readings.note_slice(work, found, is_read=not datasets)
        return ReadSlice(found, got_on, is_read=not datasets)

    def _goes_on(self, left: int, began: float) -> bool:
        """Whether a slice that may have so many files more takes up another piece."""
        is_over = self._files_of_slice - left >= self._files_at_least and self._clock() - began >= SLICE_S
        return left > 0 and not is_over

    async def _read(self, work: UnitOfWork, one: DatasetReading, size: int, *, is_held: bool) -> _Part:
        """A piece of a dataset. One that is not read to its end is not passed.

        Limits count in the order of the datasets.
        """
        if one.wanted.numbered is not None:
            return _Part(size, is_read=await number_units(work.connection, one, one.wanted.numbered, size))
        if not await self._knows_older(work, one, is_held=is_held):
            return _Part(0, is_read=False, got_on=False)
        if one.stage == COMPARE:
            return await self._compare(work, one, is_held=is_held)
        if one.catalogue_id is None:
            await store_readings.note_compared(work, one, stage=READ)
            return _Part(1, is_read=True)
        return await self._load(work, one, size)

    async def _knows_older(self, work: UnitOfWork, one: DatasetReading, *, is_held: bool) -> bool:
        """Before the first piece: which files have newer attempts; of many files without the task row."""
        is_begun = one.after_lfn != "" or one.after_file > 0 or one.after_block is not None
        if is_begun or one.wanted.takes_older or one.catalogue_id is None:
            return True
        at_most = MOST_NAMES_OF_HELD if is_held else None
        return await know_older_files(work.connection, one.catalogue_id, at_most=at_most)

    async def _load(self, work: UnitOfWork, one: DatasetReading, size: int) -> _Part:
        before = await store_readings.read_so_far(work, one)
        limits = one.wanted.limits(before)
        if limits.is_reached:
            await store_readings.note_compared(work, one, stage=READ)
            return _Part(1, is_read=True)
        where = await self._whereabouts(work, one)
        n_files = max(1, size // one.wanted.units_per_file)
        loaded = await store_readings.load_slice(work, one, limits, where, n_files)
        too_many = _too_many(one.wanted, loaded, before)
        if too_many is not None:
            await store_readings.note_too_many(work, one, too_many)
            return _Part(size, is_read=False)
        if loaded.without_events:
            await work.log_files(
                entity="file",
                task_id=one.task_id,
                ids=loaded.without_events,
                from_status=None,
                to_status="broken",
                reason=f"it has no events, and files of {one.wanted.name} are {_use_of_events(one.wanted)}",
            )
        is_last = loaded.n_listed < n_files and not loaded.is_cut
        await store_readings.note_loaded(work, one, loaded, READ if is_last else LOAD)
        n_done = loaded.n_listed * one.wanted.units_per_file if is_last else size
        return _Part(max(1, n_done, loaded.n_units), is_read=is_last)

    async def _compare(self, work: UnitOfWork, one: DatasetReading, *, is_held: bool) -> _Part:
        if not await self._forget_eventless(work, one, is_held=is_held):
            return _Part(0, is_read=False, got_on=False)
        where = await self._whereabouts(work, one)
        found = await store_readings.compare_slice(work, one, where, self._names_of_piece)
        free = [unit for unit in found["differing"] if unit["status"] not in OWNED]
        changes = [changed_unit(unit, one.wanted) for unit in free]
        if changes and not is_held:
            status = await store_readings.try_lock_task(work, one.task_id)
            if status is None:
                return _Part(0, is_read=False, got_on=False)
            changes = [] if status in FINAL else changes
        await self._change(work, one, changes)
        # What is new may stand anywhere in the catalogue: it is loaded from the first file on, past the known ones.
        after = LOAD if found["has_new"] or one.has_new else READ
        stage = after if found["last"] is None else COMPARE
        await store_readings.note_compared(
            work,
            one,
            last=found["last"],
            n_changed=len(changes),
            stage=stage,
            has_new=found["has_new"],
            has_owned=len(free) < len(found["differing"]),
        )
        return _Part(1 + found["n_held"] // COMPARED_LIKE_ONE_LOADED, is_read=stage == READ)

    async def _forget_eventless(self, work: UnitOfWork, one: DatasetReading, *, is_held: bool) -> bool:
        """Files that were read before their events were known are cut when they are; False: others have the task."""
        wants_events = one.wanted.needs_events or one.wanted.events_per_unit is not None
        if not wants_events or one.after_lfn:
            return True
        known_now = await store_readings.with_events_now(work, one)
        if not known_now:
            return True
        status = "" if is_held else await store_readings.try_lock_task(work, one.task_id)
        if status is None:
            return False
        if status not in FINAL:
            await store_readings.forget_units(work, known_now)
        return True

    async def _whereabouts(self, work: UnitOfWork, one: DatasetReading) -> Whereabouts:
        """Where copies of a dataset count."""
        storages = (await self._grid.grid(work.connection)).storages
        copies = await store_readings.copies(work, one)
        return whereabouts(copies, storages, needs_disk=one.wanted.needs_disk)

    async def _change(self, work: UnitOfWork, one: DatasetReading, changes: Sequence[UnitChange]) -> None:
        """Units that no job has become what the catalogue says; their states are logged."""
        if not changes:
            return
        moved = defaultdict(list)
        for row in await store_readings.change_units(work, one.dataset_id, changes):
            if row["was"] != row["status"]:
                FILE.check(row["was"], row["status"], Owner.TASK_DEFINITION)
                moved[row["was"], row["status"]].append(row["file_id"])
        for (was, status), ids in sorted(moved.items()):
            await work.log_files(
                entity="file",
                task_id=one.task_id,
                ids=sorted(ids),
                from_status=was,
                to_status=status,
                reason=f"the catalogue says so of {one.wanted.name}",
            )


def _too_many(wanted: InputWish, loaded: LoadedSlice, before: Read) -> str | None:
    """Why nothing more of a dataset may be loaded."""
    most = wanted.most
    if loaded.n_too_many is not None:
        return f"of one file {told_too_many(loaded.n_too_many, most.of_file, MOST_UNITS_OF_FILE.key)}"
    if wanted.is_master and before.n_units_of_task + loaded.n_units > most.of_task:
        return told_too_many(f"more than {most.of_task}", most.of_task, most.parameter)
    return None


def _use_of_events(wanted: InputWish) -> str:
    return "cut by events" if wanted.events_per_unit is not None else "handed out in ranges of events"
