"""Cuts long sequences into batches, as one statement, one event or one request takes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, Self, TypeVar


class Sliceable(Protocol):
    """What gives slices of its own type: a list, a tuple, bytes."""

    def __len__(self) -> int: ...
    def __getitem__(self, part: slice, /) -> Self: ...


S = TypeVar("S", bound=Sliceable)


def batches(items: S, size: int) -> Iterator[S]:
    """The items in their order, `size` at a time; the last batch may be smaller."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
