"""A catalogue apart from transactions: a source, a registrar and a mover of data.

Every call may take long, fail, or be repeated after a crash; none is made while a transaction is open. Whoever wants
something of a catalogue outside writes the wish as a row, and a worker carries it out and applies the result.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from shared.catalogue.port import NewFile, Replica

#: files, or copies of files, that are handed over together
SLICE = 1000


class CatalogueTrouble(Exception):
    """A call did not work; the text is told to whoever waits for it. It is tried again."""


class CatalogueLies(CatalogueTrouble):
    """The catalogue answered what cannot be."""


@dataclass(frozen=True, order=True)
class DataName:
    """A file, dataset or container as catalogues name it."""

    scope: str
    name: str

    def __str__(self) -> str:
        return f"{self.scope}:{self.name}"


@dataclass(frozen=True)
class Collection:
    """A dataset, or a container with what is directly in it."""

    name: DataName
    kind: Literal["dataset", "container"]
    is_open: bool
    n_files: int = 0
    size_bytes: int = 0
    constituents: tuple[DataName, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class FileFacts:
    """One file of a dataset."""

    name: DataName
    size_bytes: int
    n_events: int | None = None
    checksum: str | None = None
    guid: str | None = None
    lumi_block: int | None = None


@dataclass(frozen=True)
class NewCollection:
    """A dataset or container to be registered, and the container it is put into.

    `lifetime_s`: it may be deleted after so long; None: it stays.
    """

    name: DataName
    kind: Literal["dataset", "container"] = "dataset"
    container: DataName | None = None
    lifetime_s: int | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class NewRule:
    """Whole copies of collections wanted at a storage.

    `source`: read from there only; `lifetime_s`: kept for so long; `comment`: who wants it, for people.
    """

    name: DataName
    storage: str
    activity: str
    lifetime_s: int | None = None
    source: str | None = None
    comment: str = ""


@dataclass(frozen=True)
class RuleProgress:
    """How far a rule is. A rule that is stuck goes on by itself; one that is gone does not."""

    outcome: Literal["moving", "done", "stuck", "gone"]
    reason: str = ""


class Source(Protocol):
    """Reads. What is unknown is left out of the answer."""

    async def collections(self, names: Sequence[DataName]) -> dict[DataName, Collection]:
        """The known ones among `names`, containers with what is directly in them."""

    async def matching(self, pattern: DataName, at_most: int) -> tuple[DataName, ...]:
        """Datasets of a scope for which a name with wildcards stands, in order; no more than so many."""

    def files(self, name: DataName) -> AsyncIterator[Sequence[FileFacts]]:
        """The files of a dataset, in slices of at most `SLICE`."""

    async def registered(self, names: Sequence[DataName]) -> dict[DataName, FileFacts]:
        """Find files by name, where a scope has one file of a name; nothing where each dataset has its own."""

    async def copies(self, name: DataName) -> tuple[Replica, ...]:
        """Where a dataset is, wholly or in part, storages in order of name."""

    def copies_of_files(self, names: Sequence[DataName]) -> AsyncIterator[Sequence[tuple[DataName, str]]]:
        """Each usable copy of each file: of those named, and of the datasets among them; in slices."""


class Registrar(Protocol):
    """Writes. Every call is idempotent: repeating it changes nothing."""

    async def create(self, new: Sequence[NewCollection]) -> None:
        """Register empty open collections, each in its container.

        Those that exist stay as they are.
        """

    async def add_files(self, dataset: DataName, files: Sequence[NewFile]) -> None:
        """Register files with their first copies, and put them into an open dataset."""

    async def attach(self, dataset: DataName, files: Sequence[DataName]) -> None:
        """Put files that are registered into another open dataset as well."""

    async def remove_files(self, dataset: DataName, files: Sequence[DataName]) -> None:
        """Take files out of an open dataset."""

    async def close(self, names: Sequence[DataName]) -> None:
        """No more files will be added."""

    async def reopen(self, names: Sequence[DataName]) -> None:
        """Files may be added again."""

    async def set_lifetime(self, name: DataName, lifetime_s: int | None) -> None:
        """A collection may be deleted after so long; None: it stays."""

    async def describe(self, name: DataName, metadata: Mapping[str, Any]) -> None:
        """Set these metadata; others stay."""


class Mover(Protocol):
    """Rules in and out. Creating one that exists finds it again by what it asks for."""

    #: datasets that exist for a rule only are registered in it
    transfer_scope: str

    async def create_rule(self, new: NewRule) -> str:
        """The id of the rule."""

    async def look_at(self, rule_ids: Sequence[str]) -> dict[str, RuleProgress]:
        """How far these rules are; every id is answered."""

    async def cancel(self, rule_id: str) -> None:
        """The rule is not needed any more; its copies may go."""


class OutsideCatalogue(Source, Registrar, Mover, Protocol):
    """The three together, as an adapter of a real catalogue has them."""
