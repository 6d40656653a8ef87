"""What an owner is to be told is written down, in the transaction of what happened."""

from __future__ import annotations

from services.task_definition.tasks.policy.client_names import name_of
from services.task_definition.tasks.store.notices import SQL
from shared.db.turns import take_turn
from shared.db.unit_of_work import UnitOfWork
from shared.events import TaskCompleted

#: how often tasks are looked for that wait for their owner, and for how long they waited then
WAITING_EVERY_S, WAITED_S = 60.0, 3600.0
FORGET_EVERY_S, KEPT_DAYS = 3600.0, 30
MOST = 500
#: a letter that could not be sent for so long is not sent any more
OLDEST_S = 86_400.0


class Notices:
    """Writes notices, where letters are sent at all."""

    def __init__(self, *, sends: bool) -> None:
        self._sends = sends

    async def on_task_completed(self, event: TaskCompleted, work: UnitOfWork) -> None:
        """Note that a task ended, broke or is exhausted; what is noted already is not noted again."""
        if self._sends:
            await SQL.run(
                work.connection,
                "note_end",
                task_id=event.task_id,
                cause=event.status,
                oldest_s=OLDEST_S,
                no_email=name_of("no_email"),
            )

    async def look(self, work: UnitOfWork) -> None:
        """Note tasks that have waited for an hour for what only somebody's change can give them."""
        if not self._sends:
            return
        turn = await take_turn(work.connection, "waiting_for_owners", WAITING_EVERY_S)
        if turn is not None:
            await SQL.run(
                work.connection,
                "note_waiting",
                waited_s=WAITED_S,
                days=KEPT_DAYS,
                most=MOST,
                no_email=name_of("no_email"),
            )

    async def forget(self, work: UnitOfWork) -> bool:
        """Drop old notices; whether there may be more."""
        return len(await SQL.rows(work.connection, "forget_notices", days=KEPT_DAYS, most=MOST)) >= MOST
