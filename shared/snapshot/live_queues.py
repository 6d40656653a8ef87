"""A walk through all queues that have live jobs: jobs are counted some queues at a time.

Nothing leads to all live jobs at once, and nothing should: a million of them are read for half a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shared.db.queries import Queries
from shared.db.unit_of_work import UnitOfWork

SQL = Queries.beside(__file__)

#: of one stretch: queues, and live jobs as the statistics count them, unless one queue alone has more
MOST_QUEUES, MOST_JOBS = 50, 10_000


@dataclass(frozen=True)
class Stretch:
    """Queues that are looked at in one transaction: those after one name, up to another.

    `upto` None: the last of all.
    """

    queues: Sequence[str]
    after: str
    upto: str | None

    @property
    def more(self) -> bool:
        """Whether queues are left of this walk."""
        return self.upto is not None


class QueueWalk:
    """Keeps the position, which moves on with the commit; after the last queue the next walk begins."""

    def __init__(self, *, most_jobs: int = MOST_JOBS) -> None:
        self._most_jobs = most_jobs
        self._after = ""

    async def next(self, work: UnitOfWork, *, anew: bool = False) -> Stretch:
        """Read which queues are next; `anew`: from the first on."""
        after = "" if anew else self._after
        rows = await SQL.rows(work.connection, "next_queues", after=after, most=MOST_QUEUES)
        queues, n_jobs = list[str](), 0
        for row in rows[:MOST_QUEUES]:
            n_jobs += row["n_jobs"]
            if queues and n_jobs > self._most_jobs:
                break
            queues.append(row["queue"])
        upto = queues[-1] if len(queues) < len(rows) else None
        work.after_commit(lambda: self._move(upto or ""))
        return Stretch(queues, after, upto)

    def _move(self, after: str) -> None:
        self._after = after
