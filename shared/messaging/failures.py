"""How a handler says that it could not do its work.

Anything else that a handler raises is a bug: it is tried a few times and then parked with the error as reason.
Errors of PostgreSQL itself are never a message's failure: the consumer keeps the message and waits for the database.
"""

from __future__ import annotations

LONGEST_REASON = 10_000


def storable(reason: str) -> str:
    """The reason as PostgreSQL keeps it: no character NUL, no half of a surrogate pair, and an end."""
    shown = reason[:LONGEST_REASON].encode("utf-8", "backslashreplace").decode()
    return shown.replace("\x00", "\\x00")


class Failure(Exception):
    """Base of the two; `reason` is a sentence that a user may read."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = storable(reason)


class Permanent(Failure):
    """Trying again cannot help: the event is parked with the reason, and its task (if any) set pending."""

    def __init__(self, reason: str, task_id: int | None = None) -> None:
        super().__init__(reason)
        self.task_id = task_id


class Transient(Failure):
    """Something outside is not ready: the event is stored and handled again after `retry_after_s`."""

    def __init__(self, reason: str, retry_after_s: float = 60.0) -> None:
        super().__init__(reason)
        self.retry_after_s = retry_after_s
