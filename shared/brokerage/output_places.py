"""Where output goes: where it is written, where it is kept, and whether it must be moved.

Each output dataset has a token and a destination of its own (JEDI: STORAGETOKEN, DESTINATION). A token is one of

* the kind of a storage, as its type or space token: ``DATADISK``, ``DATATAPE``, ``ATLASDATADISK``;
* ``dst:NAME``: a destination, as if the dataset named it;
* ``ddd:`` or ``ddd:NAME``: distributed; files stay where they are written, or at the storage that is named.

Several are separated by commas. Without a destination a dataset goes to that of its task, else to its nucleus.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from shared.brokerage.nuclei import destination_storage
from shared.model.grid import Grid
from shared.model.queue import Queue
from shared.model.storage import Storage

_DESTINATION = "dst:"
#: files stay where they are written
DISTRIBUTED = "ddd:"
#: the token of files that merge jobs read; no storage is of this kind
UNMERGED = "TOMERGE"
#: types too general to be the end of another kind's name
_NO_KINDS = ("", "DISK", "TAPE")


@dataclass(frozen=True)
class OutputToken:
    """A token taken apart; None: it does not say."""

    kind: str | None = None
    destination: str | None = None
    is_distributed: bool = False
    stays_at: str | None = None


def token_of(text: str | None) -> OutputToken:
    """What a token says. Example: "dst:SITE-A,DATATAPE" is the kind DATATAPE at SITE-A."""
    kind = destination = stays_at = None
    is_distributed = False
    for part in (one.strip() for one in (text or "").split(",")):
        if part.startswith(_DESTINATION):
            destination = part.removeprefix(_DESTINATION).partition("/")[0] or None
        elif part.startswith(DISTRIBUTED):
            is_distributed, stays_at = True, part.removeprefix(DISTRIBUTED).partition("/")[0] or None
        elif part and part != UNMERGED:
            kind = part
    return OutputToken(kind, destination, is_distributed, stays_at)


def is_of_kind(storage: Storage, kind: str) -> bool:
    """Whether a storage is what a token asks for. Example: a DATADISK is one for ATLASDATADISK."""
    longer = storage.type not in _NO_KINDS and kind.endswith(storage.type)
    return kind in (storage.name, storage.token, storage.type) or longer


def _of_kind(storages: Iterable[Storage], kind: str | None) -> Storage | None:
    return next((one for one in storages if kind is not None and is_of_kind(one, kind)), None)


def write_storages(grid: Grid, queue: Queue, *, analysis: bool) -> tuple[Storage, ...]:
    """Where a queue writes, in order of preference."""
    return tuple(grid.storages[name] for name in queue.storages("write", analysis=analysis) if name in grid.storages)


def written_storage(storages: Sequence[Storage], token: str | None) -> str | None:
    """Of those that a queue writes to, the first of the token's kind, else the first; None: there is none."""
    found = _of_kind(storages, token_of(token).kind) or next(iter(storages), None)
    return None if found is None else found.name


def storage_of_file(grid: Grid, queue: str, reported: str | None, token: str | None, *, analysis: bool) -> str | None:
    """The storage of a file that a pilot wrote; None where it is unknown.

    It is the storage that the pilot names if there is one of this name, else that to which the queue writes.
    """
    if reported in grid.storages:
        return reported
    known = grid.queues.get(queue)
    return written_storage(write_storages(grid, known, analysis=analysis), token) if known is not None else None


def kept_storage(grid: Grid, token: str | None, destination: str | None, of_task: str | None) -> Storage | None:
    """Where files of a dataset are kept; None: where they are written.

    `of_task`: the destination of the task, else its nucleus. A site keeps them at its storage of the token's kind, else
    where it keeps output.
    """
    said = token_of(token)
    if said.is_distributed:
        return grid.storages.get(said.stays_at or "")
    place = said.destination or destination or of_task
    if place is None:
        return None
    if place not in grid.storages:
        usual = destination_storage(grid, place)
        if said.kind is None or (usual is not None and is_of_kind(usual, said.kind)):
            return usual
        here = sorted((one for one in grid.storages.values() if one.site == place), key=_most_free)
        return _of_kind(here, said.kind) or usual
    return destination_storage(grid, place)


def _most_free(storage: Storage) -> tuple[float, str]:
    return -storage.space_free_gb, storage.name


def must_move(
    grid: Grid, queue: str, written_at: str | None, kept: Storage | None, token: str | None, place: str | None
) -> bool:
    """Whether a file that was written there is not where it is kept.

    A destination that is a site takes any storage of it, or any of the token's kind if it has one.
    """
    if kept is None or written_at == kept.name:
        return False
    said = token_of(token)
    if said.is_distributed or (said.destination or place) in grid.storages:
        return True
    written, known = grid.storages.get(written_at or ""), grid.queues.get(queue)
    site = known.site if known is not None else written.site if written is not None else None
    if site != kept.site:
        return True
    wants_kind = said.kind is not None and is_of_kind(kept, said.kind)
    return wants_kind and not (written is not None and is_of_kind(written, said.kind or ""))
