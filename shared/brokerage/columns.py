"""Queues as columns: one array per attribute, one row per pseudo-queue (queue, resource type).

A unified queue has a row for each resource type it has cores for; any other queue has one row with resource type "".
Where the task decides how many cores a slot has (corecount -1) a row has -1, and `QueueColumns.parts_for` the slots.
Rows are sorted by queue name, then by the order of the resource types. Memory is MB of one job slot, the work directory
is the part of one slot, times are seconds, zero means no limit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shared.brokerage.zero_share import Policy, policy_of
from shared.model.names import WILDCARD, matching
from shared.model.queue import TASK_DECIDES, Connectivity, Queue, QueueStatus, QueueType
from shared.model.resource_types import QueuePart, ResourceType

STATUSES = tuple(QueueStatus)
TYPES = tuple(QueueType)
CONNECTIVITIES = tuple(Connectivity)
IP_STACKS = ("", "IPv4", "IPv6")
JOBSEEDS = ("std", "es", "eshigh", "all")

Whole = NDArray[np.int64]
Real = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class QueueColumns:
    """What a queue says about itself, by row.

    `rows_of_queue` and `rows_of_storage` lead from names to rows.

    `queue_index` numbers the queues: all rows of one have its number.
    `open_rows` are those where the task decides the cores; `known_types` are the resource types by name.
    `zero_share` has each policy once; `zero_share_index` says which is a row's. `needs_no_pilot`: allow_no_pilot.
    """

    queues: tuple[Queue, ...]
    resource_types: tuple[str, ...]
    labels: tuple[str, ...]
    queue_index: Whole
    sites: tuple[str, ...]
    site_index: Whole
    status: Whole
    type: Whole
    takes_production: Flags
    takes_analysis: Flags
    takes_plain_jobs: Flags
    runs_jumbo_jobs: Flags
    is_test: Flags
    is_no_test: Flags
    core_count: Whole
    has_several_cores: Flags
    open_rows: tuple[int, ...]
    known_types: Mapping[str, ResourceType]
    core_power_hs06: Real
    min_time_s: Whole
    max_time_s: Whole
    min_rss_mb: Real
    max_rss_mb: Real
    work_dir_mb: Real
    max_input_size_mb: Whole
    max_disk_io_kb_s: Whole
    transferring_limit: Whole
    direct_access: Flags
    connectivity: Whole
    ip_stack: Whole
    is_virtual_placement: Flags
    jobseed: Whole
    needs_no_pilot: Flags
    zero_share: tuple[Policy, ...]
    zero_share_index: Whole
    rows_of_queue: Mapping[str, NDArray[np.int64]]
    rows_of_read_storage: Mapping[str, NDArray[np.int64]]
    rows_of_analysis_read_storage: Mapping[str, NDArray[np.int64]]

    def __len__(self) -> int:
        return len(self.queues)

    @cached_property
    def row_of_label(self) -> Mapping[str, int]:
        """Rows by `QUEUE/TYPE`."""
        return {label: row for row, label in enumerate(self.labels)}

    def rows_named(self, names: Sequence[str]) -> Flags:
        """Rows of the queues with these names, or of all queues of a site; `NAME/TYPE`: of one resource type.

        A name that is both a queue's and a site's is the queue's. `OPQ*` names all whose names begin so.
        """
        mask = np.zeros(len(self), bool)
        for name in names:
            place, _, resource_type = name.partition("/")
            for one in self._places(place) if WILDCARD in place else (place,):
                rows = self.rows_of_queue.get(one)
                for row in np.flatnonzero(self.at_site(one)) if rows is None else rows:
                    if not resource_type or self.resource_types[row] in ("", resource_type):
                        mask[row] = True
        return mask

    def _places(self, pattern: str) -> list[str]:
        """Queues and sites that a name with wildcards stands for."""
        return matching(pattern, dict.fromkeys((*self.rows_of_queue, *self.sites)))

    def parts_for(self, task_cores: int) -> dict[int, QueuePart | None]:
        """The slots of `open_rows` for a task of so many cores (0: any); None where the type does not fit."""
        return {
            row: self.queues[row].part_for(self.known_types.get(self.resource_types[row]), task_cores)
            for row in self.open_rows
        }

    def at_site(self, site: str) -> Flags:
        """Rows of the queues of one site."""
        index = self.sites.index(site) if site in self.sites else -1
        return self.site_index == index


@dataclass(frozen=True)
class _Row:
    queue: Queue
    resource_type: str
    part: QueuePart


def expand(queue: Queue, resource_types: Sequence[ResourceType]) -> list[_Row]:
    """The pseudo-queues of a queue; a unified queue without cores for any type has none."""
    kinds: Sequence[ResourceType | None] = resource_types if queue.is_unified else (None,)
    parts = ((kind, queue.part_for(kind)) for kind in kinds)
    return [_Row(queue, kind.name if kind else "", part) for kind, part in parts if part is not None]


def _index(rows: Sequence[_Row], names_of: Mapping[int, Sequence[str]]) -> dict[str, NDArray[np.int64]]:
    found: dict[str, list[int]] = {}
    for place in range(len(rows)):
        for name in names_of[place]:
            found.setdefault(name, []).append(place)
    return {name: np.array(places, np.int64) for name, places in found.items()}


def build_columns(queues: Mapping[str, Queue], resource_types: Sequence[ResourceType]) -> QueueColumns:
    """Columns of a grid's queues."""
    rows = [row for name in sorted(queues) for row in expand(queues[name], resource_types)]
    sites = tuple(sorted({row.queue.site for row in rows}))
    place = {site: index for index, site in enumerate(sites)}
    place_of_queue = {name: number for number, name in enumerate(dict.fromkeys(row.queue.name for row in rows))}
    whole = lambda values: np.array(list(values), np.int64)  # noqa: E731
    real = lambda values: np.array(list(values), np.float64)  # noqa: E731
    flags = lambda values: np.array(list(values), bool)  # noqa: E731
    policies = {policy.text: policy for policy in (policy_of(row.queue) for row in rows)}
    place_of_policy = {text: number for number, text in enumerate(policies)}
    core_count = whole(row.part.core_count for row in rows)
    columns = QueueColumns(
        queues=tuple(row.queue for row in rows),
        resource_types=tuple(row.resource_type for row in rows),
        labels=tuple(f"{row.queue.name}/{row.resource_type}".rstrip("/") for row in rows),
        queue_index=whole(place_of_queue[row.queue.name] for row in rows),
        sites=sites,
        site_index=whole(place[row.queue.site] for row in rows),
        status=whole(STATUSES.index(row.queue.status) for row in rows),
        type=whole(TYPES.index(row.queue.type) for row in rows),
        takes_production=flags(row.queue.type in (QueueType.PRODUCTION, QueueType.UNIFIED) for row in rows),
        takes_analysis=flags(row.queue.type in (QueueType.ANALYSIS, QueueType.UNIFIED) for row in rows),
        takes_plain_jobs=flags(row.queue.jobseed in ("std", "all") for row in rows),
        runs_jumbo_jobs=flags(row.queue.runs_jumbo_jobs for row in rows),
        is_no_test=flags("test" not in row.queue.name.lower() for row in rows),
        is_test=flags("test" in row.queue.name.lower() for row in rows),
        core_count=core_count,
        has_several_cores=(core_count > 1) | (core_count == TASK_DECIDES),
        open_rows=tuple(int(row) for row in np.flatnonzero(core_count == TASK_DECIDES)),
        known_types={one.name: one for one in resource_types},
        core_power_hs06=real(row.queue.core_power_hs06 for row in rows),
        min_time_s=whole(row.queue.min_time_s for row in rows),
        max_time_s=whole(row.queue.max_time_s for row in rows),
        min_rss_mb=real(row.part.min_rss_mb for row in rows),
        max_rss_mb=real(row.part.max_rss_mb for row in rows),
        work_dir_mb=real(row.queue.work_dir_of(row.part) for row in rows),
        max_input_size_mb=whole(row.queue.max_input_size_mb for row in rows),
        max_disk_io_kb_s=whole(row.queue.max_disk_io_kb_s for row in rows),
        transferring_limit=whole(row.queue.transferring_limit for row in rows),
        direct_access=flags(row.queue.direct_access_lan or row.queue.max_input_size_mb == -1 for row in rows),
        connectivity=whole(CONNECTIVITIES.index(Connectivity(row.queue.connectivity)) for row in rows),
        ip_stack=whole(IP_STACKS.index(row.queue.ip_stack) for row in rows),
        is_virtual_placement=flags(row.queue.is_virtual_placement for row in rows),
        jobseed=whole(JOBSEEDS.index(row.queue.jobseed) for row in rows),
        needs_no_pilot=flags(row.queue.options.get("allow_no_pilot", "").lower() == "true" for row in rows),
        zero_share=tuple(policies.values()),
        zero_share_index=whole(place_of_policy[row.queue.fair_share_policy] for row in rows),
        rows_of_queue=_index(rows, {n: (row.queue.name,) for n, row in enumerate(rows)}),
        rows_of_read_storage=_index(
            rows, {n: row.queue.storages("read", analysis=False) for n, row in enumerate(rows)}
        ),
        rows_of_analysis_read_storage=_index(
            rows, {n: row.queue.storages("read", analysis=True) for n, row in enumerate(rows)}
        ),
    )
    _make_read_only(columns)
    return columns


def _make_read_only(columns: QueueColumns) -> None:
    """Every decision reads the same arrays."""
    for field in fields(columns):
        value = getattr(columns, field.name)
        if isinstance(value, np.ndarray):
            value.setflags(write=False)
