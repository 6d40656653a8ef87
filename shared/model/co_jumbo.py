"""Jobs that stand for job sets which no queue takes (JEDI: Jumbo jobs and co-jumbo jobs)."""

from __future__ import annotations

#: what the field calls the place of such a job; it is stored without a queue
CO_JUMBO_QUEUE = "WAITING_CO_JUMBO"


def shown_queue(queue: str | None) -> str:
    """The queue of a job as people and clients see it. Example: None is WAITING_CO_JUMBO."""
    return CO_JUMBO_QUEUE if queue is None else queue
