"""A request of a pilot as ASGI has it, and the endpoints that are served without a framework."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from starlette.responses import Response
from starlette.types import Receive, Scope


class PilotCall(Protocol):
    """What is needed of a request; a request of Starlette has it, too."""

    @property
    def scope(self) -> Scope: ...

    @property
    def receive(self) -> Receive: ...


@dataclass(frozen=True, slots=True)
class PlainCall:
    """Where the headers, the caller and the body of a request are."""

    scope: Scope
    receive: Receive


#: answers with the bytes of a JSON text, or with a response of the framework where that is rare
Direct = Callable[[PilotCall], Awaitable[bytes | Response]]
