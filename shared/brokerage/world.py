"""The immutable world that every decision of a cycle shares: columns, load, storages, sites, links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shared.brokerage.columns import QueueColumns, build_columns
from shared.brokerage.load import Load
from shared.brokerage.nuclei import NucleusFacts, build_nuclei
from shared.brokerage.software import Lack, SoftwareNeeds, lack_of
from shared.model.grid import Grid
from shared.model.link import Link
from shared.model.storage import Storage


@dataclass(frozen=True)
class OutputStorage:
    """The storages of each row: usable space for output, and which of them work.

    Usable space of the one that takes output (GB, NaN without a storage), whether that works, whether any that is read
    works (`readable`), and whether the first of these does, to which input is moved (`input_readable`; true where none
    is named).
    """

    usable_gb: NDArray[np.float64]
    writable: NDArray[np.bool_]
    readable: NDArray[np.bool_]
    input_readable: NDArray[np.bool_]


@dataclass(frozen=True)
class LinkRows:
    """Links from each row's site to one destination; NaN: not measured; closeness -1: blocked."""

    same_site: NDArray[np.bool_]
    closeness: NDArray[np.float64]
    queued_output: NDArray[np.float64]
    queued_express: NDArray[np.float64]
    queued_at_s: NDArray[np.float64]
    mbps: NDArray[np.float64]
    mbps_at_s: NDArray[np.float64]


@dataclass(frozen=True)
class Lacks:
    """For each row the number of what it lacks (`Lack`), and which of them there are at all."""

    rows: NDArray[np.int64]
    kinds: frozenset[Lack]


# Different software that tasks ask for and that is kept ready, for one grid.
SOFTWARE_KEPT = 512


@dataclass(frozen=True)
class World:
    """Everything a decision reads. `version` is the grid's; `taken_at` when it was read."""

    version: int
    taken_at: datetime | None
    grid: Grid
    columns: QueueColumns
    load: Load
    production_output: OutputStorage
    analysis_output: OutputStorage
    _links_to: dict[str, LinkRows] = field(default_factory=dict, compare=False, repr=False)
    _backlogs: dict[str, Backlog] = field(default_factory=dict, compare=False, repr=False)
    _lacks: dict[SoftwareNeeds, Lacks] = field(default_factory=dict, compare=False, repr=False)
    _nuclei: list[NucleusFacts] = field(default_factory=list, compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """What is indexed on demand is no part of the value."""
        return {**self.__dict__, "_links_to": {}, "_backlogs": {}, "_lacks": {}, "_nuclei": []}

    @classmethod
    def of(cls, grid: Grid, *, version: int = 0, taken_at: datetime | None = None, load: Load | None = None) -> World:
        """Build the columns of a grid."""
        columns = build_columns(grid.queues, grid.resource_types)
        return cls(
            version=version,
            taken_at=taken_at,
            grid=grid,
            columns=columns,
            load=load if load is not None else Load.idle(len(columns)),
            production_output=_output_storage(columns, grid.storages, analysis=False),
            analysis_output=_output_storage(columns, grid.storages, analysis=True),
        )

    def with_load(self, load: Load, taken_at: datetime | None = None) -> World:
        """The same grid with other numbers: costs nothing but the load itself."""
        return replace(self, load=load, taken_at=taken_at or self.taken_at)

    def of_vo(self, vo: str) -> World:
        """The world as work of one VO sees it: jobs are counted of that VO alone."""
        return self.with_load(self.load.of_vo(vo))

    def links_to(self, destination: str) -> LinkRows:
        """Links from every row to a site; built once for each destination and grid."""
        found = self._links_to.get(destination)
        if found is None:
            found = self._links_to[destination] = _link_rows(self.columns, self.grid.links, destination)
        return found

    def queued_to(self, destination: str, now: datetime) -> float:
        """Files queued on all links to a site, by counts of the last hour; NaN if there is none."""
        if not self._backlogs:
            self._backlogs.update(_backlogs(self.grid.links))
        backlog = self._backlogs.get(destination)
        return backlog.total(now) if backlog is not None else float("nan")

    def lacks(self, needs: SoftwareNeeds) -> Lacks:
        """What each row lacks of some software; judged once for each grid."""
        found = self._lacks.get(needs)
        if found is None:
            if len(self._lacks) >= SOFTWARE_KEPT:
                self._lacks.clear()
            by_queue: dict[str, Lack] = {}
            for queue in self.columns.queues:
                if queue.name not in by_queue:
                    by_queue[queue.name] = lack_of(queue, self.grid.software, needs)
            rows = np.array([by_queue[queue.name] for queue in self.columns.queues], np.int64)
            found = self._lacks[needs] = Lacks(rows, frozenset(by_queue.values()))
        return found

    @property
    def nucleus_facts(self) -> NucleusFacts:
        """What the grid says about its nuclei; built once for each grid."""
        if not self._nuclei:
            self._nuclei.append(build_nuclei(self.grid, self.columns))
        return self._nuclei[0]


# Counts of queued files are used while they are younger than this.
FRESH_S = 3600.0


@dataclass(frozen=True)
class Backlog:
    """Files queued on each link to one site, and when they were counted."""

    files: NDArray[np.float64]
    counted_s: NDArray[np.float64]

    def total(self, now: datetime) -> float:
        fresh = self.counted_s >= now.timestamp() - FRESH_S
        return float(self.files[fresh].sum()) if fresh.any() else float("nan")


def _backlogs(links: Mapping[tuple[str, str], Link]) -> dict[str, Backlog]:
    counts: dict[str, list[tuple[int, float]]] = {}
    for (_, end), link in links.items():
        if link.queued_output is not None and link.queued_at is not None:
            counts.setdefault(end, []).append((link.queued_output, link.queued_at.timestamp()))
    return {
        end: Backlog(np.array([one[0] for one in found], np.float64), np.array([one[1] for one in found]))
        for end, found in counts.items()
    }


def _output_storage(columns: QueueColumns, storages: Mapping[str, Storage], *, analysis: bool) -> OutputStorage:
    rows = len(columns)
    usable, writable, readable = np.full(rows, np.nan), np.zeros(rows, bool), np.zeros(rows, bool)
    input_readable = np.ones(rows, bool)
    for row, queue in enumerate(columns.queues):
        output = storages.get(queue.output_storage(analysis=analysis) or "")
        inputs = [storages[name] for name in queue.storages("read", analysis=analysis) if name in storages]
        if output is not None:
            usable[row] = output.space_usable_gb
            writable[row] = output.works("write_lan")
        readable[row] = any(storage.works("read_lan") for storage in inputs)
        input_readable[row] = not inputs or inputs[0].works("read_lan")
    return OutputStorage(usable, writable, readable, input_readable)


def _link_rows(columns: QueueColumns, links: Mapping[tuple[str, str], Link], destination: str) -> LinkRows:
    by_site = [links.get((site, destination)) for site in columns.sites]
    nan = float("nan")

    def rows(values: Sequence[float | None]) -> NDArray[np.float64]:
        return np.array([nan if value is None else float(value) for value in values], np.float64)[columns.site_index]

    def best_mbps(link: Link) -> float | None:
        """The last hour if there is one, else the last day, else the last week."""
        return next((value for value in (link.mbps_1h, link.mbps_1d, link.mbps_1w) if value is not None), None)

    return LinkRows(
        same_site=np.array([site == destination for site in columns.sites], bool)[columns.site_index],
        closeness=rows([link.closeness if link else None for link in by_site]),
        queued_output=rows([link.queued_output if link else None for link in by_site]),
        queued_express=rows([link.queued_express if link else None for link in by_site]),
        queued_at_s=rows([link.queued_at.timestamp() if link and link.queued_at else None for link in by_site]),
        mbps=rows([best_mbps(link) if link else None for link in by_site]),
        mbps_at_s=rows([link.mbps_at.timestamp() if link and link.mbps_at else None for link in by_site]),
    )
