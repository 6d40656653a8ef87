"""Event ranges that a retry throws away (JEDI: Transition of event status)."""

from __future__ import annotations

from shared.db.queries import Queries
from shared.db.unit_of_work import UnitOfWork
from shared.states.event_range import CODES, EVENT_RANGE, STATUS_OF_CODE, EventRangeStatus
from shared.states.graph import Owner

SQL = Queries.beside(__file__)
DISCARDED: EventRangeStatus = "discarded"
AT_ONCE = 10_000


async def discard_if_wanted(work: UnitOfWork, task_id: int) -> int:
    """Ranges that were processed and not merged, if the retry of the task says so; how many."""
    allowed = [CODES[one] for one in EVENT_RANGE.sources(DISCARDED, Owner.JOB_GENERATION)]
    n_discarded, last = 0, 0
    while rows := await SQL.rows(
        work.connection,
        "discard",
        task_id=task_id,
        after=last,
        to_status=CODES[DISCARDED],
        allowed=allowed,
        size=AT_ONCE,
    ):
        n_discarded += len(rows)
        last = max(row["event_range_id"] for row in rows)
        for before in sorted({row["status"] for row in rows}):
            await work.log_files(
                entity="event_range",
                task_id=task_id,
                ids=sorted(row["event_range_id"] for row in rows if row["status"] == before),
                from_status=STATUS_OF_CODE[before],
                to_status=DISCARDED,
                reason="retry that discards events",
            )
    return n_discarded
