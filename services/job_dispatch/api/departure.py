"""Callers that go while their request waits: nothing is done for them any more."""

from __future__ import annotations

import asyncio
from types import TracebackType

from starlette.requests import ClientDisconnect
from starlette.types import Receive

from services.job_dispatch.acquire.due_calls import DueCalls

NOTICE_AFTER_S = 0.05


class WhileConnected:
    """`with WhileConnected(...)` ends with ClientDisconnect if the caller has gone.

    For requests whose body was read. The connection is looked at from `notice_after_s` on: most requests have been
    answered by then, and pay for an entry in a table only.
    """

    __slots__ = ("_cancelling", "_due", "_has_gone", "_notice_after_s", "_number", "_receive", "_task", "_watcher")

    def __init__(self, receive: Receive, due: DueCalls, notice_after_s: float = NOTICE_AFTER_S) -> None:
        self._receive = receive
        self._due = due
        self._notice_after_s = notice_after_s
        self._has_gone = False
        self._watcher: asyncio.Task[None] | None = None

    def __enter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task, self._cancelling = task, task.cancelling()
        self._number = self._due.begin(self._notice_after_s, self._begin)

    def _begin(self) -> None:
        self._watcher = asyncio.get_running_loop().create_task(self._watch())

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._has_gone = True
        self._task.cancel()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._due.end(self._number)
        if self._watcher is not None:
            self._watcher.cancel()
        if self._has_gone and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise ClientDisconnect from error
