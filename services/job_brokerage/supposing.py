"""Decides again about a chunk as if a number were another one; nothing is stored.

It is decided twice on the world of now, with what is and with what is supposed, by the same seed: what differs is what
the numbers do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import asyncpg

from services.job_brokerage.loading import ChunkLoading, FindPolicy, policy_of, request_of
from services.job_brokerage.policy.kinds import kind_of
from services.job_brokerage.store import chunks as store
from shared.auth import Caller
from shared.auth.access import DETAILS, Whose
from shared.brokerage.decision import Decision
from shared.brokerage.difference import Difference, difference
from shared.brokerage.explained import Stored
from shared.brokerage.request import JobRequest
from shared.config.declared import find_parameter, near_names
from shared.config.parameters import Parameters, Place
from shared.model.problems import FieldProblem
from shared.snapshot import Snapshot
from shared.web.problems import WrongRequest

#: numbers of a task that may be supposed, in its own units, by the columns that they stand in
NUMBERS: Mapping[str, Sequence[str]] = {
    "core_count": ("core_count",),
    "ram_count": ("ram_count",),
    "cpu_time": ("cpu_time",),
    "base_walltime": ("base_walltime",),
    "out_disk_count": ("out_disk_count",),
    "work_disk_count": ("work_disk_count",),
    "io_intensity": ("io_intensity",),
    "disk_io": ("disk_io",),
    "priority": ("current_priority", "chunk_priority"),
}
UNITS = ("ram_unit", "cpu_time_unit", "out_disk_unit", "work_disk_unit", "io_intensity_unit", "disk_io_unit")


class Supposing:
    """Reads only."""

    def __init__(
        self, loading: ChunkLoading, snapshot: Snapshot, parameters: Parameters, find_policy: FindPolicy
    ) -> None:
        self._loading, self._snapshot, self._parameters, self._find_policy = loading, snapshot, parameters, find_policy
        # beside the event loop, one at a time: real chunks are decided upon meanwhile
        self._turn = asyncio.Lock()

    async def of_task(
        self,
        connection: asyncpg.Connection,
        task_id: int,
        chunk_id: int | None,
        caller: Caller,
        numbers: Mapping[str, float],
        settings: Sequence[str],
        seed: int,
        at_most: int | None = None,
    ) -> dict[str, Any] | None:
        """Tell what would be decided, and what differs; None for a chunk that is not there, or not told.

        `chunk_id` None: the last one of the task. `at_most`: so many differences are told.

        `settings`: runtime parameters, COMPONENT.KEY=VALUE. Raises WrongRequest for one that there is not, and for
        numbers that make no sense.
        """
        chunk_id = chunk_id or await store.last_chunk(connection, task_id) or 0
        row = await store.chunk_with_task(connection, chunk_id, must_wait=False)
        if (
            row is None
            or row["task_id"] != task_id
            or not DETAILS.allows(caller, Whose.of(row["user_name"], row["vo"]))
        ):
            return None
        supposed = self._parameters.supposing(
            {place: value for one in settings for place, value in _setting(one, row["vo"]).items()}
        )
        check_read(row, numbers)
        now = await connection.fetchval("SELECT orrery_now()")
        facts = await self._loading.facts(connection, row)
        try:
            before = request_of(row, facts, self._parameters, now)
            after = _sharing(before, request_of(_with(row, numbers), facts, supposed, now))
        except ValueError as error:
            raise WrongRequest([FieldProblem("number", str(dict(numbers)), "what makes sense", str(error))]) from None
        async with self._turn:
            old, new, found = await asyncio.to_thread(self._compared, before, after, seed, at_most)
        return {
            "task_id": row["task_id"],
            "chunk_id": chunk_id,
            **numbers_of(row),
            "before": _told(old),
            "after": _told(new),
            "changes": found.changes,
            "n_changes": found.numbers,
        }

    def _compared(
        self, before: JobRequest, after: JobRequest, seed: int, at_most: int | None
    ) -> tuple[Decision, Decision, Difference]:
        """Decide on both, on one world; where nothing is supposed once."""
        world = self._snapshot.world.of_vo(before.vo)
        old = policy_of(before, self._find_policy).decide(world, before, seed)
        if after == before and after.analysis is before.analysis:
            return old, old, Difference([], {})
        new = policy_of(after, self._find_policy).decide(world, after, seed)
        return old, new, difference(Stored.of(old), Stored.of(new), at_most)


def _sharing(before: JobRequest, after: JobRequest) -> JobRequest:
    """The same, with what is known of user and task where that is alike: numbers of a task change nothing of it."""
    old, new = before.analysis, after.analysis
    return replace(after, analysis=old) if old and new and old.limits == new.limits else after


def numbers_of(row: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The numbers of a chunk's jobs that may be supposed, and their units."""
    own = kind_of(row).own_columns
    return {
        "numbers": {name: row[_columns_of(row, name)[0]] for name in _read(row)},
        "units": {name: row[own.get(name, name)] for name in UNITS},
    }


def _read(row: Mapping[str, Any]) -> Sequence[str]:
    unread = kind_of(row).unread_columns
    return [name for name, columns in NUMBERS.items() if columns[0] not in unread]


def check_read(row: Mapping[str, Any], numbers: Mapping[str, float]) -> None:
    """Raise WrongRequest for a number that says nothing about the chunk's jobs."""
    read = _read(row)
    for name in numbers:
        if name not in read:
            allowed = f"of {row['kind']} jobs {', '.join(read)}"
            raise WrongRequest([FieldProblem("number", name, allowed, f"number: value {name!r}: allowed: {allowed}")])


def _columns_of(row: Mapping[str, Any], name: str) -> Sequence[str]:
    own = kind_of(row).own_columns
    return [own.get(column, column) for column in NUMBERS[name]]


def _with(row: Mapping[str, Any], numbers: Mapping[str, float]) -> Mapping[str, Any]:
    changed: dict[str, float | None] = {
        column: value for name, value in numbers.items() for column in _columns_of(row, name)
    }
    if "ram_count" in numbers:
        changed["chunk_ram_mb"] = None  # what failures raised it to
    return {**row, **changed}


def _setting(text: str, vo: str | None) -> dict[Place, Any]:
    """A parameter that is supposed for every VO, and for the task's. Raises WrongRequest."""
    name, sign, value = text.partition("=")
    component, _, key = name.strip().partition(".")
    parameter = find_parameter(component, key) if sign else None
    if parameter is None:
        near = " or ".join(near_names(component, key))
        allowed = f"COMPONENT.KEY=VALUE of a runtime parameter{f'; did you mean {near}?' if near else ''}"
        raise WrongRequest([FieldProblem("parameter", text, allowed, f"parameter: value {text!r}: allowed: {allowed}")])
    try:
        supposed = parameter.parsed(value.strip())
    except ValueError as error:
        raise WrongRequest([FieldProblem("parameter", text, parameter.allowed, f"{name}: {error}")]) from None
    return dict.fromkeys(((parameter.app, component, key, vo), (parameter.app, component, key, None)), supposed)


def _told(decision: Decision) -> dict[str, Any]:
    summary = decision.summary()
    return {
        "outcome": decision.outcome,
        "chosen": list(decision.chosen),
        "summary": summary,
        "reason": decision.reason(summary),
    }
