"""What Orrery asks of a catalogue of data.

The built-in one is PostgreSQL; others (Rucio) are adapters of this port.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import asyncpg

OPEN, FROZEN = "open", "frozen"


@dataclass(frozen=True)
class DatasetFacts:
    """A dataset, or a container with the names of its datasets in order."""

    name: str
    scope: str
    kind: Literal["dataset", "container"]
    state: Literal["open", "frozen"]
    n_files: int = 0
    size_bytes: int = 0
    n_events: int = 0
    constituents: tuple[str, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)


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
class FeedRequest:
    """Copy a dataset's files into `task_files` as units of input, in the order of the catalogue.

    `events_per_unit`: split files into ranges of so many events (event-level splitting), one row for each; None: one
    row for each file. `events_per_file`: counts for every file instead of what the catalogue knows. `first_event`: the
    running number of the first event. Limits count what is added; files already there are left out.
    """

    task_id: int
    dataset_id: int
    dataset: str
    type: str
    max_attempt: int | None
    max_failure: int | None = None
    max_files: int | None = None
    max_events: int | None = None
    events_per_unit: int | None = None
    events_per_file: int | None = None
    first_event: int = 1
    names: tuple[str, ...] | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    skip_files_used_by: tuple[int, ...] = ()
    by_lumi_block: bool = False
    respect_lumi_blocks: bool = False


@dataclass(frozen=True)
class FeedResult:
    """What was added: units (rows), their files, and their events (None if no file's events are known)."""

    n_units: int
    n_files: int
    n_events: int | None


class CatalogueReader(Protocol):
    """What every service may ask."""

    async def find(self, connection: asyncpg.Connection, names: Sequence[str]) -> dict[str, DatasetFacts]:
        """The known ones among `names`, and the datasets of the containers among them."""

    async def replicas(self, connection: asyncpg.Connection, names: Sequence[str]) -> dict[str, tuple[Replica, ...]]:
        """Where datasets are, by dataset, storages in order of name; datasets without a copy are left out."""


class Catalogue(CatalogueReader, Protocol):
    """What task_definition does besides. Every call is idempotent: repeating it changes nothing."""

    async def create(
        self, connection: asyncpg.Connection, name: str, *, scope: str, container: str | None = None
    ) -> None:
        """Register an empty open dataset, and put it into a container (made if need be)."""

    async def feed(self, connection: asyncpg.Connection, request: FeedRequest) -> FeedResult:
        """Copy contents to `task_files`."""

    async def add_files(self, connection: asyncpg.Connection, files: Sequence[NewFile]) -> int:
        """Register new files of open datasets with their first replicas; how many were new."""

    async def add_replicas(self, connection: asyncpg.Connection, copies: Sequence[tuple[str, str, str]]) -> None:
        """Further copies: (dataset, lfn, storage)."""

    async def remove_files(self, connection: asyncpg.Connection, files: Sequence[tuple[str, str]]) -> int:
        """Take files (dataset, lfn) out of open datasets, with their copies; how many there were."""

    async def freeze(self, connection: asyncpg.Connection, names: Sequence[str]) -> None:
        """No more files will be added."""

    async def reopen(self, connection: asyncpg.Connection, names: Sequence[str]) -> None:
        """Files may be added again."""
