"""A catalogue of the tests that can be down, be slow and lie; otherwise it says what the one behind it says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Any

from shared.catalogue.outside import CatalogueTrouble, Collection, DataName, FileFacts, OutsideCatalogue
from shared.catalogue.port import Replica

#: what each lie makes of an answer
FILES_LIES: dict[str, Callable[[list[FileFacts]], list[FileFacts]]] = {
    "a file twice": lambda files: [*files, files[0]],
    "a negative size": lambda files: [replace(files[0], size_bytes=-1), *files[1:]],
    "a size that is no number": lambda files: [replace(files[0], size_bytes="many"), *files[1:]],  # type: ignore[arg-type]
    "a file without a name": lambda files: [replace(files[0], name=DataName("mc", "")), *files[1:]],
    "negative events": lambda files: [replace(files[0], n_events=-5), *files[1:]],
}


class FaultyCatalogue:
    """Counts what it was asked."""

    def __init__(self, inner: OutsideCatalogue) -> None:
        self._inner = inner
        self.transfer_scope = inner.transfer_scope
        self.is_down = False
        self.lie: str | None = None
        #: set: calls wait until it is cleared
        self.hangs: asyncio.Event | None = None
        self.is_hanging = asyncio.Event()
        #: names of calls after which the process is as good as dead: their answer is lost
        self.loses: set[str] = set()
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        inner = getattr(self._inner, name)

        async def call(*given: Any) -> Any:
            await self._before(name)
            answer = await inner(*given)
            if name in self.loses:
                self.loses.remove(name)
                raise asyncio.CancelledError
            return answer

        return call

    async def _before(self, name: str) -> None:
        self.asked.append(name)
        if self.is_down:
            raise CatalogueTrouble("http://catalogue cannot be reached: ConnectionError")
        if self.hangs is not None:
            self.is_hanging.set()
            await self.hangs.wait()

    async def collections(self, names: Sequence[DataName]) -> dict[DataName, Collection]:
        await self._before("collections")
        found = await self._inner.collections(names)
        if self.lie == "a container in itself":
            return {
                name: replace(one, constituents=(*one.constituents, name)) if one.kind == "container" else one
                for name, one in found.items()
            }
        if self.lie == "a negative number of files":
            return {name: replace(one, n_files=-3) for name, one in found.items()}
        return found

    async def files(self, name: DataName) -> AsyncIterator[Sequence[FileFacts]]:
        await self._before("files")
        change = FILES_LIES.get(self.lie or "", list)
        if self.lie == "a file twice, far apart":
            async for some in self._inner.files(name):
                yield some
        async for some in self._inner.files(name):
            yield change(list(some))

    async def copies(self, name: DataName) -> tuple[Replica, ...]:
        await self._before("copies")
        found = await self._inner.copies(name)
        if self.lie == "a copy with more files than there are":
            return tuple(replace(one, n_files=one.n_files + 5) for one in found)
        if self.lie == "a negative number of bytes of a copy":
            return tuple(replace(one, size_bytes=-1) for one in found)
        if self.lie == "a copy of files that do not exist":
            return tuple(replace(one, complete=False) for one in found)
        return found

    async def copies_of_files(self, names: Sequence[DataName]) -> AsyncIterator[Sequence[tuple[DataName, str]]]:
        await self._before("copies_of_files")
        async for some in self._inner.copies_of_files(names):
            if self.lie == "a copy of files that do not exist":
                yield [(DataName(name.scope, f"{name.name}.gone"), storage) for name, storage in some]
            else:
                yield some
