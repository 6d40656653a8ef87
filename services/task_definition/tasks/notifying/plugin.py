"""What the plugin of a VO is asked about an occasion to tell the owner of a task.

It is an entry point of the group `orrery.owner_notice`, a class without arguments, and decides from values alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

GROUP = "orrery.owner_notice"
#: one address without a name, as SMTP takes it
_ADDRESS = re.compile(r"[^\s<>@,;:\"()\\]+@[A-Za-z0-9.\-]+")


@dataclass(frozen=True)
class Occasion:
    """What happened to a task; `cause`: its new state, or `waits` where only its owner can help.

    `domain`: what stands behind the @ of users who have no address of their own; "": nothing is known.
    """

    task_id: int
    task_name: str
    user_name: str
    vo: str
    cause: str
    since: datetime
    progress: int | None
    error: str
    domain: str


@dataclass(frozen=True)
class Letter:
    """One letter to one address."""

    to: str
    subject: str
    text: str


class OwnerNotice(Protocol):
    """Makes letters to owners of a VO's tasks."""

    name: str

    def letter(self, about: Occasion) -> Letter | None:
        """What to tell; None: nothing."""
        ...


def is_address(text: str) -> bool:
    """Whether a letter can be sent there."""
    return len(text) <= 254 and _ADDRESS.fullmatch(text) is not None
