"""How much of the gateway one address may hold: requests on their way, and bodies in memory."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

#: bodies up to this are read before a connection to a service is taken, answers before they are sent: a slow caller
#: costs the services nothing
READ_WHOLE_BYTES = 1024 * 1024
#: without credentials no service reads more
WITHOUT_CREDENTIALS_BYTES = 64 * 1024


class Full(Exception):
    """The caller should come again later."""


class Places:
    """Requests on their way at once, of all and from one address; the others wait for their turn.

    `most_waiting`: from one address; without it as many as come.
    """

    def __init__(self, most: int, most_of_one: int, most_waiting: int | None = None) -> None:
        self._all = asyncio.Semaphore(most)
        self._most = most
        self._most_of_one = most_of_one
        self._most_waiting = most_waiting
        self._of: dict[str, asyncio.Semaphore] = {}
        self._n_of: Counter[str] = Counter()

    @asynccontextmanager
    async def taken(self, address: str) -> AsyncIterator[None]:
        """A place, as long as the block runs. Raises Full where too many from this address wait."""
        if self._most_waiting is not None and self._n_of[address] >= self._most_waiting + self._most_of_one:
            raise Full(f"{self._n_of[address]} requests from {address} are under way or wait here already")
        self._n_of[address] += 1
        try:
            async with self._of.setdefault(address, asyncio.Semaphore(self._most_of_one)), self._all:
                yield
        finally:
            self._n_of[address] -= 1
            if not self._n_of[address]:
                del self._n_of[address], self._of[address]


class Held:
    """The bytes of one body that are kept."""

    def __init__(self, memory: Memory, address: str) -> None:
        self._memory = memory
        self._address = address
        self._n_bytes = 0

    def more(self, n_bytes: int) -> None:
        """So many more. Raises Full."""
        self._memory.add(self._address, n_bytes)
        self._n_bytes += n_bytes

    def __enter__(self) -> Held:
        return self

    def __exit__(self, *_: object) -> None:
        self._memory.free(self._address, self._n_bytes)


class Memory:
    """Bytes of bodies that are kept at once, of all and from one address."""

    def __init__(self, most: int, most_of_one: int) -> None:
        self._most = most
        self._most_of_one = most_of_one
        self._n_bytes = 0
        self._of: Counter[str] = Counter()

    def held(self, address: str) -> Held:
        """For one body."""
        return Held(self, address)

    def add(self, address: str, n_bytes: int) -> None:
        if self._n_bytes + n_bytes > self._most or self._of[address] + n_bytes > self._most_of_one:
            raise Full(
                f"bodies of {self._of[address]} bytes from {address} and of {self._n_bytes} in all are kept here"
            )
        self._n_bytes += n_bytes
        self._of[address] += n_bytes

    def free(self, address: str, n_bytes: int) -> None:
        self._n_bytes -= n_bytes
        self._of[address] -= n_bytes
        if not self._of[address]:
            del self._of[address]


@dataclass(frozen=True)
class Rooms:
    """What one kind of calls has for itself: whole requests, large bodies on their way, memory."""

    whole: Places
    streamed: Places
    memory: Memory


def rooms_of_pilots() -> Rooms:
    """Thousands stand behind one address, so their whole requests have no bound by address."""
    return Rooms(Places(500, 500), Places(50, 10, 500), Memory(128 * 2**20, 64 * 2**20))


def rooms_of_others() -> Rooms:
    return Rooms(Places(200, 50, 500), Places(50, 10, 50), Memory(128 * 2**20, 32 * 2**20))


def rooms_of_pages() -> Rooms:
    """Pages of the console wait for calls of their own through this gateway, which need places of others."""
    return Rooms(Places(200, 50, 500), Places(20, 5, 20), Memory(32 * 2**20, 8 * 2**20))


def rooms_of_hints() -> Rooms:
    """Open pages of the console keep a place as long as they are looked at; nobody waits for one."""
    return Rooms(Places(5000, 1500, 0), Places(1, 1, 0), Memory(2**20, 2**20))
