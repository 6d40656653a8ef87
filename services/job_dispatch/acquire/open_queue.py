"""A queue whose windows are in memory, and lists of ids that are kept for a while."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from services.job_dispatch.policy.queue_window import QueueWindow


@dataclass
class OpenQueue:
    """A queue's window, when it was last used and when it is read again from the start.

    `n_shares`: of so many shares, in rank order, the lanes are read.
    """

    window: QueueWindow
    used_at: float
    sweep_at: float
    n_shares: int


def shorten(ids: OrderedDict[int, None], most: int) -> None:
    """The oldest go."""
    while len(ids) > most:
        ids.popitem(last=False)
