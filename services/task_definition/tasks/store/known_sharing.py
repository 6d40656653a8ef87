"""Shares, resource types and work queues in memory: read again when their version is another one."""

from __future__ import annotations

import asyncpg

from services.task_definition.tasks.policy.classes import Sharing
from services.task_definition.tasks.store import tasks as store


class KnownSharing:
    """One copy for each process."""

    def __init__(self) -> None:
        self._version = -1
        self._sharing = Sharing((), (), ())

    async def of_version(self, connection: asyncpg.Connection, version: int) -> Sharing:
        """What this version has, or a newer one: a change committed since the version was asked for is in it."""
        if version != self._version:
            self._sharing, self._version = await store.sharing(connection), version
        return self._sharing
