"""What becomes of input that tasks use: a dataset grows, loses files that come back, breaks, and is closed."""

from __future__ import annotations

import random
from collections.abc import Callable

from shared.catalogue import BuiltInCatalogue, NewFile
from shared.db.database import Database
from tests.simulation.scenario import GROWING

MOST_FILES, MOST_BROKEN = 6, 1
#: the container that a task reads, and what may join it
CONTAINER, NEW_PART = "analysis/", "analysis.part9"
_BREAK = """
UPDATE catalogue.files f SET is_corrupted = true FROM catalogue.datasets d
 WHERE d.dataset_id = f.dataset_id AND d.name = $1 AND f.lfn = $2
"""
_CHANGE = """
UPDATE catalogue.files f SET size_bytes = f.size_bytes + 1, checksum = $3 FROM catalogue.datasets d
 WHERE d.dataset_id = f.dataset_id AND d.name = $1 AND f.lfn = $2
"""


class Inputs:
    """Changes the catalogue behind the back of its services. `is_broken`: some of the input can never be used.

    `in_every_way`: files also get other contents, a container gets another dataset, and the input may be closed early.
    """

    def __init__(
        self,
        rng: random.Random,
        database: Database,
        storage: str,
        n_files: int,
        note: Callable[[str], None],
        *,
        in_every_way: bool,
    ) -> None:
        self._rng, self._database, self._storage, self._note = rng, database, storage, note
        self._in_every_way, self._is_closed, self._has_new_part = in_every_way, False, False
        self._catalogue = BuiltInCatalogue()
        self._here = [self._lfn(number) for number in range(1, n_files + 1)]
        self._lost: list[str] = []
        self._n_made = n_files
        self.is_broken = False

    async def change(self) -> None:
        """One change, if there is anything left to change."""
        choices = [self._grow] * (self._n_made < MOST_FILES and not self._is_closed)
        choices += [self._lose] * (len(self._here) > 1 and not self._is_closed)
        choices += [self._return] * bool(self._lost) + [self._break] * (not self.is_broken and len(self._here) > 1)
        if self._in_every_way:
            choices += [self._alter] * 2 + [self._join] * (not self._has_new_part)
            choices += [self._close] * (not self._is_closed and not self._lost)
        if choices:
            await self._rng.choice(choices)()

    async def settle(self) -> None:
        """All that is lost comes back, and nothing is added any more."""
        while self._lost:
            await self._return()
        await self._close()

    async def _close(self) -> None:
        self._is_closed = True
        async with self._database.begin(reason="its producer closes it") as work:
            await self._catalogue.freeze(work.connection, [GROWING])
        self._note(f"{GROWING} is closed")

    async def _alter(self) -> None:
        lfn = self._rng.choice(self._here)
        async with self._database.begin(reason="a file is written again") as work:
            await work.connection.execute(_CHANGE, GROWING, lfn, f"ad:{self._rng.randrange(16**8):08x}")
        self._note(f"{lfn} has other contents")

    async def _join(self) -> None:
        """What a task reads as one container gets another dataset."""
        self._has_new_part = True
        files = [NewFile(NEW_PART, f"{NEW_PART}._{number:06d}.root", 10**7, self._storage, 100) for number in (1, 2)]
        async with self._database.begin(reason="a container grows") as work:
            await self._catalogue.create(work.connection, NEW_PART, scope="sim", container=CONTAINER)
            await self._catalogue.add_files(work.connection, files)
            await self._catalogue.freeze(work.connection, [NEW_PART])
        self._note(f"{NEW_PART} is in {CONTAINER}")

    async def _grow(self) -> None:
        self._n_made += 1
        await self._add(self._lfn(self._n_made))

    async def _return(self) -> None:
        await self._add(self._lost.pop(self._rng.randrange(len(self._lost))))

    async def _add(self, lfn: str) -> None:
        async with self._database.begin(reason="a file appears") as work:
            await self._catalogue.add_files(work.connection, [NewFile(GROWING, lfn, 10**7, self._storage, 100)])
        self._here.append(lfn)
        self._note(f"{lfn} is in {GROWING}")

    async def _lose(self) -> None:
        lfn = self._here.pop(self._rng.randrange(len(self._here)))
        async with self._database.begin(reason="a file disappears") as work:
            await self._catalogue.remove_files(work.connection, [(GROWING, lfn)])
        self._lost.append(lfn)
        self._note(f"{lfn} is lost")

    async def _break(self) -> None:
        self.is_broken = True
        lfn = self._rng.choice(self._here)
        async with self._database.begin(reason="a file is corrupted") as work:
            await work.connection.execute(_BREAK, GROWING, lfn)
        self._note(f"{lfn} is corrupted")

    @staticmethod
    def _lfn(number: int) -> str:
        return f"{GROWING}._{number:06d}.root"
