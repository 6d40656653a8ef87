"""Which work is urgent: its transfers use the express activity, and its queues need a good network."""

from __future__ import annotations

#: production tasks from this priority on are urgent
URGENT_PRIORITY = 1000
URGENT_PROCESSING = "urgent"


def is_urgent(processing_type: str | None, priority: float) -> bool:
    """Whether work is urgent: processingType urgent, or priority 1000 and more (JEDI: Express transfers).

    Example: a reprocessing task of priority 900 is not, one of 1000 is, and so is one of 100 that is called urgent.
    """
    return processing_type == URGENT_PROCESSING or priority >= URGENT_PRIORITY
