"""Which order keys changed, by version: a reader that remembers its version learns what came since."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable

#: keys that are remembered; a reader that is further behind looks at all
MOST_KEYS = 100_000


class OrderChanges:
    """The last changes. `version` is another number after each."""

    __slots__ = ("_changes", "_first", "_n_keys", "version")

    def __init__(self) -> None:
        self.version = 0
        self._first = 0
        self._changes: deque[Collection[int]] = deque()
        self._n_keys = 0

    def note(self, order_key_ids: Iterable[int]) -> None:
        """Note that these have another place, or none any more."""
        changed = frozenset(order_key_ids)
        if not changed:
            return
        self.version += 1
        self._changes.append(changed)
        self._n_keys += len(changed)
        while self._n_keys > MOST_KEYS:
            self._n_keys -= len(self._changes.popleft())
            self._first += 1

    def note_all(self) -> None:
        """Note that any may have changed."""
        self.version += 1
        self._first, self._n_keys = self.version, 0
        self._changes.clear()

    def since(self, version: int) -> set[int] | None:
        """The keys that changed since a version; None: too many, or that is too long ago."""
        if version < self._first:
            return None
        found: set[int] = set()
        for place in range(version - self._first, len(self._changes)):
            found.update(self._changes[place])
        return found
