"""Waiting tasks whose input has more replicas than when they were decided about, found by dataset."""

from __future__ import annotations

from collections.abc import Iterable

import asyncpg

from shared.brokerage.lifts import Lift
from shared.db.unit_of_work import UnitOfWork
from shared.waits.index import WaitIndex, Waiting
from shared.waits.store import SQL, Kind, Part

#: a copy may be registered by a transaction that began so long before the decision and was not seen by it
NOT_SEEN_YET_S = 3.0
#: and so long where it is certain that it was committed after the last look
NEWS_NOT_SEEN_YET_S = 15.0


class ReplicaNews:
    """Compares new waiting tasks with their datasets once; later looks only at changed datasets.

    So a registered output costs the tasks that wait for its dataset, and nothing while no task waits for a replica.
    """

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self._horizon: int | None = None
        self._found: set[tuple[Part, int]] = set()

    async def read(self, index: WaitIndex, work: UnitOfWork) -> frozenset[tuple[Part, int]]:
        """(what waits, wake_nr) of those that may go on."""
        self._found = {key for key in self._found if index.has(*key)}
        if not any(Lift.REPLICA in group.causes.lifts for group in index.groups.values()):
            self._horizon = None
            return frozenset()
        horizon = int(await SQL.value(work.connection, "horizon"))
        arrived = [one.key.task_id for one in _that_wait_for_replicas(index.unseen())]
        if arrived:
            self._add(
                await SQL.rows(
                    work.connection, "replicas_of_waits", kind=self._kind, task_ids=arrived, unseen_s=NOT_SEEN_YET_S
                )
            )
        if self._horizon is not None:
            self._add(
                await SQL.rows(
                    work.connection,
                    "changed_replicas",
                    kind=self._kind,
                    horizon=self._horizon,
                    unseen_s=NEWS_NOT_SEEN_YET_S,
                )
            )
        self._horizon = horizon
        return frozenset(self._found)

    def _add(self, rows: Iterable[asyncpg.Record]) -> None:
        self._found.update((Part(row["task_id"], row["work"], row["part"]), row["wake_nr"]) for row in rows)


def _that_wait_for_replicas(waiting: Iterable[Waiting]) -> Iterable[Waiting]:
    return (one for one in waiting if Lift.REPLICA in one.causes.lifts)
