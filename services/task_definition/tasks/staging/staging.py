"""Has the input of tasks staged from tape, and gives up what does not come.

The built-in catalogue has copies on disk after a while, the first files first; a catalogue outside gets a rule with a
lifetime. What is on disk is worked on at once: the input is read again when the catalogue changes. Source: JEDI: Task
Refiner (staging).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from services.task_definition.data.policy.transfers import LOCAL_MB_S, Speed, duration_s
from services.task_definition.data.wishing import Wishes
from services.task_definition.tasks.policy.staging import (
    StageIn,
    StagingLimits,
    beginning,
    held,
    lacks,
    place_for,
    too_large,
)
from services.task_definition.tasks.store import tasks as store
from services.task_definition.tasks.store.staging import SQL
from services.task_definition.tasks.store.tasks import TaskRow
from shared.catalogue.port import Catalogue, OneUse
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork
from shared.events import TaskCompleted, TaskReleased
from shared.model.analysis import is_analysis
from shared.snapshot import KnownGrid
from shared.states.task import FINAL

DAY_S = 86_400.0
#: after its end a stage-in is shown for so long
FORGET_AFTER_S = 30 * DAY_S
#: of the files of a stage-in that arrive together
PARTS = 10


class Staging:
    """`ask` when input is found on tape alone; `look` is done periodically."""

    def __init__(self, catalogue: Catalogue, wishes: Wishes, grid: KnownGrid, parameters: Parameters) -> None:
        self._catalogue, self._wishes = catalogue, wishes
        self._grid, self._parameters = grid, parameters

    async def ask(self, work: UnitOfWork, task: TaskRow) -> str | None:
        """Have what the task waits for staged; why it never will be, where it may not."""
        limits = self._parameters.filled(StagingLimits, vo=task.vo)
        storages = (await self._grid.grid(work.connection)).storages
        tapes = sorted(name for name, one in storages.items() if one.is_tape)
        rows = await SQL.rows(work.connection, "to_stage", task_id=task.task_id, tapes=tapes)
        if is_analysis(task.task_type, task.prod_source_label):
            refused = (too_large(row["dataset_name"], row["n_bytes"], limits) for row in rows)
            if reason := next((one for one in refused if one is not None), None):
                return reason
        for row in rows:
            place = place_for(row["storage"], storages)
            await SQL.run(
                work.connection,
                "ask",
                task_id=task.task_id,
                vo=task.vo,
                user_name=task.user_name,
                dataset_id=row["dataset_id"],
                dataset_name=row["dataset_name"],
                source=row["storage"],
                destination=place,
                n_files=row["n_files"],
                n_bytes=row["n_bytes"],
                waits_for=lacks(row["storage"], place),
            )
        return None

    async def look(self, work: UnitOfWork) -> None:
        """Periodic: begin what has room, register what has come, end what is over or not wanted any more."""
        limits = self._parameters.filled(StagingLimits)
        rows = await SQL.rows(work.connection, "open_stage_ins", given_up_s=limits.given_up_days * DAY_S)
        live: list[dict[str, Any]] = []
        for row in rows:
            if row["task_status"] in FINAL:
                await self.end(work, row["stage_in_id"], error="its task has ended")
            elif row["error"] or row["is_over"]:
                source = f" from {row['source_storage']}" if row["source_storage"] else ""
                waits = f": {row['waits_for']}" if row["waits_for"] else ""
                error = f"not staged{source} in {limits.given_up_days:g} days{waits}"
                await self.end(work, row["stage_in_id"], error=row["error"] or error)
            else:
                live.append(dict(row))
        active = [row for row in live if row["status"] == "active"]
        placed = await self._place(work, [row for row in live if row["status"] == "requested"])
        begun = {one.stage_in_id for one in beginning(map(_stage_in, placed), [*map(_stage_in, active)], limits)}
        for one in placed:
            if one["stage_in_id"] in begun:
                await self._begin(work, one, limits)
            else:
                await self._wait(work, one, held(_stage_in(one), limits))
        await self._bring(work, [row for row in active if row["due_at"] is not None], limits)
        await SQL.run(work.connection, "forget_stage_ins", older_than_s=FORGET_AFTER_S)

    async def _place(self, work: UnitOfWork, waiting: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Those that have a tape and a disk, which may be known only now; the others say what they lack."""
        if not waiting:
            return []
        storages = (await self._grid.grid(work.connection)).storages
        tapes = sorted(name for name, one in storages.items() if one.is_tape)
        for one in waiting:
            if one["source_storage"] is None:
                name = one["dataset_name"]
                one["source_storage"] = await SQL.value(work.connection, "tape_of", dataset_name=name, tapes=tapes)
            if one["destination_storage"] is None:
                one["destination_storage"] = place_for(one["source_storage"], storages)
            await self._wait(work, one, lacks(one["source_storage"], one["destination_storage"]) or one["waits_for"])
        return [one for one in waiting if lacks(one["source_storage"], one["destination_storage"]) is None]

    async def _wait(self, work: UnitOfWork, row: Mapping[str, Any], waits_for: str | None) -> None:
        """It says what it waits for."""
        await SQL.run(
            work.connection,
            "place_stage_in",
            stage_in_id=row["stage_in_id"],
            source=row["source_storage"],
            destination=row["destination_storage"],
            waits_for=waits_for,
        )

    async def _begin(self, work: UnitOfWork, row: Mapping[str, Any], limits: StagingLimits) -> None:
        outside = self._wishes.is_outside(row["vo"])
        duration = duration_s(row["n_bytes"], LOCAL_MB_S, self._parameters.filled(Speed))
        await SQL.run(
            work.connection,
            "begin_stage_in",
            stage_in_id=row["stage_in_id"],
            duration_s=None if outside else duration,
        )
        if outside:
            await self._wishes.stage(work, row, lifetime_s=limits.kept_days * DAY_S)

    async def _bring(self, work: UnitOfWork, rows: Sequence[Mapping[str, Any]], limits: StagingLimits) -> None:
        """Copies that the built-in catalogue has on disk by now, a tenth of the files at a time."""
        for row in rows:
            n_files = row["n_files"] * min(PARTS, int(row["part"] * PARTS)) // PARTS
            if n_files > row["n_staged"]:
                same = {"stage_in_id": row["stage_in_id"]}
                more = n_files - row["n_staged"]
                files = await SQL.rows(work.connection, "files_to_stage", n_files=more, **same)
                place, use = row["destination_storage"], OneUse(row["task_id"], limits.kept_days * DAY_S)
                copies = [(one["dataset_name"], one["lfn"], place) for one in files]
                await self._catalogue.bring(work.connection, copies, use)
                await SQL.run(work.connection, "note_staged", n_staged=n_files, **same)
            if row["part"] >= 1:
                await self.end(work, row["stage_in_id"])

    async def end(self, work: UnitOfWork, stage_in_id: int, *, error: str | None = None) -> None:
        """It is done; or it is not, and the task goes on with what it has, or is broken where that is nothing.

        A task that is paused meanwhile is broken when it is resumed.
        """
        status, same = "done" if error is None else "failed", {"stage_in_id": stage_in_id}
        if error is not None and await SQL.rows(work.connection, "break_on_resume", error=error, **same):
            return
        row = await SQL.row(work.connection, "end_stage_in", status=status, error=error, **same)
        if row is None or error is None:
            return
        dropped = await SQL.rows(work.connection, "open_request_of", task_id=row["task_id"], error=error, **same)
        await self._wishes.release(work, [dict(one) for one in dropped if one["rule_id"] is not None])
        task = await store.lock(work, row["task_id"])
        if task is None or task.status in FINAL:
            return
        if task.status == "staging":
            await store.move(work, task.task_id, "tobroken", error, sources=["staging"], error_dialog=error)
            await store.move(work, task.task_id, "broken", error, error_dialog=error)
            await store.note_end(work, task.task_id)
            work.emit(TaskCompleted(task_id=task.task_id, status="broken"))
            return
        units = await SQL.rows(work.connection, "give_up_units", dataset_id=row["dataset_id"])
        ids = sorted(one["file_id"] for one in units)
        await work.log_files(
            entity="file", task_id=task.task_id, ids=ids, from_status="staging", to_status="missing", reason=error
        )
        work.emit(TaskReleased(task_id=task.task_id, status=task.status, reason=error, released_at=work.now))


def _stage_in(row: Mapping[str, Any]) -> StageIn:
    return StageIn(row["stage_in_id"], (row["vo"], row["user_name"]), row["source_storage"], row["n_bytes"])
