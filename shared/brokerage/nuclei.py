"""Facts of the grid about its nuclei: one array per attribute, one row per nucleus, sorted by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shared.brokerage.columns import QueueColumns
from shared.model.grid import Grid
from shared.model.site import ACTIVE
from shared.model.storage import Storage

Real = NDArray[np.float64]
Flags = NDArray[np.bool_]

#: bareNucleus of a site, in the order of its numbers
BARE = ("", "only", "allow")


@dataclass(frozen=True)
class NucleusFacts:
    """Sizes in GB, NaN for a nucleus without storage.

    `of_row`: for each row of the queues its nucleus, or the number of nuclei where its site is none. `of_storage`: the
    nucleus a storage belongs to.
    """

    names: tuple[str, ...]
    active: Flags
    bare: NDArray[np.int64]
    space_free_gb: Real
    space_total_gb: Real
    writable: Flags
    of_row: NDArray[np.int64]
    of_storage: Mapping[str, int]

    def queues(self, able: Flags) -> Real:
        """How many of some rows each nucleus has."""
        return np.bincount(self.of_row[able], minlength=len(self.names) + 1)[: len(self.names)].astype(np.float64)


def nucleus_storage(grid: Grid, nucleus: str) -> Storage | None:
    """Where a nucleus keeps output: its default endpoint, else its DATADISK with most free space."""
    site = grid.sites.get(nucleus)
    default = grid.storages.get(site.default_storage) if site is not None else None
    if default is not None:
        return default
    disks = (grid.storages[name] for name in grid.disks_of_site.get(nucleus, ()))
    kept = [one for one in disks if one.type == "DATADISK"]
    return max(kept, key=lambda one: (one.space_free_gb, one.name), default=None)


def destination_storage(grid: Grid, destination: str) -> Storage | None:
    """Where output is sent: the storage of this name, unless it is tape, else that of the site."""
    storage = grid.storages.get(destination)
    if storage is None:
        return nucleus_storage(grid, destination)
    return None if storage.is_tape else storage


def build_nuclei(grid: Grid, columns: QueueColumns) -> NucleusFacts:
    """The facts of all nuclei of a grid."""
    nuclei = {name: site for name, site in sorted(grid.sites.items()) if site.is_nucleus}
    names, nan = tuple(nuclei), float("nan")
    place = {name: number for number, name in enumerate(names)}
    outputs = [nucleus_storage(grid, name) for name in names]
    by_site = np.array([place.get(site, len(names)) for site in columns.sites], np.int64)
    return NucleusFacts(
        names=names,
        active=np.array([nuclei[name].state == ACTIVE for name in names], bool),
        bare=np.array([BARE.index(nuclei[name].bare_nucleus) for name in names], np.int64),
        space_free_gb=np.array([one.space_free_gb + one.space_expired_gb if one else nan for one in outputs], float),
        space_total_gb=np.array([one.space_total_gb if one else nan for one in outputs], float),
        writable=np.array([one.works("write_wan") if one else False for one in outputs], bool),
        of_row=by_site[columns.site_index] if len(columns) else np.zeros(0, np.int64),
        of_storage={name: place[one.site] for name, one in grid.storages.items() if one.site in place},
    )
