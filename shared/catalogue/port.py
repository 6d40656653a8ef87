"""What Orrery asks of a catalogue of data.

The built-in one is PostgreSQL; others (Rucio) are adapters of this port.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import asyncpg

OPEN, FROZEN = "open", "frozen"
#: datasets for which one name with wildcards may stand
MOST_STOOD_FOR = 5000


@dataclass(frozen=True)
class DatasetFacts:
    """A dataset, or a container with the names of its datasets in order.

    `vo`: to which it belongs ("": to none), `owner`: the person, where it is somebody's.
    """

    name: str
    scope: str
    kind: Literal["dataset", "container"]
    state: Literal["open", "frozen"]
    n_files: int = 0
    size_bytes: int = 0
    n_events: int = 0
    constituents: tuple[str, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    vo: str = ""
    owner: str = ""
    readable_by_all: bool = False


@dataclass(frozen=True)
class Replica:
    """The copy of a dataset at one storage; an incomplete one has `n_files` of its files."""

    storage: str
    n_files: int
    size_bytes: int
    complete: bool


@dataclass(frozen=True)
class NewFile:
    """A file to be registered, where its first replica is."""

    dataset: str
    lfn: str
    size_bytes: int
    storage: str
    n_events: int | None = None
    checksum: str | None = None
    guid: str | None = None


@dataclass(frozen=True)
class OneUse:
    """For what copies are brought: the jobs of a task, by a rule outside (None: by none).

    They are deleted when the task has ended, or after `lifetime_s`.
    """

    task_id: int
    lifetime_s: float
    request_id: int | None = None


class CatalogueReader(Protocol):
    """What every service may ask."""

    async def find(
        self, connection: asyncpg.Connection, names: Sequence[str], vo: str | None = None
    ) -> dict[str, DatasetFacts]:
        """The known ones among `names`, and the datasets of the containers among them.

        With `vo` those that this VO may read: its own, nobody's, and what was opened for all. A name with wildcards is
        a container of the datasets that it stands for, of which no more than `MOST_STOOD_FOR` and one are told.
        """

    async def replicas(self, connection: asyncpg.Connection, names: Sequence[str]) -> dict[str, tuple[Replica, ...]]:
        """Where datasets are, by dataset, storages in order of name; datasets without a copy are left out."""

    async def absent(self, connection: asyncpg.Connection, files: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
        """Those of the files (dataset, lfn) that their dataset does not have, or not any more."""


class Catalogue(CatalogueReader, Protocol):
    """What task_definition does besides. Every call is idempotent: repeating it changes nothing."""

    async def create(
        self, connection: asyncpg.Connection, name: str, *, scope: str, container: str | None = None
    ) -> None:
        """Register an empty open dataset, and put it into a container (made if need be)."""

    async def add_files(self, connection: asyncpg.Connection, files: Sequence[NewFile]) -> int:
        """Register new files of open datasets with their first replicas; how many were new."""

    async def add_replicas(self, connection: asyncpg.Connection, copies: Sequence[tuple[str, str, str]]) -> None:
        """Further copies that stay: (dataset, lfn, storage); one that was there for one use stays from now on."""

    async def bring(self, connection: asyncpg.Connection, copies: Sequence[tuple[str, str, str]], use: OneUse) -> None:
        """Further copies (dataset, lfn, storage) that are deleted after use.

        Those that are there already stay.
        """

    async def drop_copies(self, connection: asyncpg.Connection, copies: Sequence[tuple[str, str, str]]) -> None:
        """Copies (dataset, lfn, storage) that are deleted; complete copies of datasets are not."""

    async def delete_some(self, connection: asyncpg.Connection, dataset_id: int, at_most: int) -> bool:
        """So many files of a dataset with their copies; whether any are left.

        The dataset itself goes with the last.
        """

    async def remove_files(self, connection: asyncpg.Connection, files: Sequence[tuple[str, str]]) -> int:
        """Take files (dataset, lfn) out of open datasets, with their copies; how many there were."""

    async def freeze(self, connection: asyncpg.Connection, names: Sequence[str]) -> None:
        """No more files will be added."""

    async def reopen(self, connection: asyncpg.Connection, names: Sequence[str]) -> None:
        """Files may be added again."""
