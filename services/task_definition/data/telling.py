"""Tells those to whom a name belongs that somebody else was about to write it."""

from __future__ import annotations

from collections.abc import Sequence

from services.task_definition.data.policy.scopes import ForeignName
from services.task_definition.data.store.scopes import note_refused
from services.task_definition.metrics import DefinitionMetrics
from shared.auth import Caller
from shared.db.database import Database
from shared.db.unit_of_work import UnitOfWork
from shared.model.problems import FieldProblem


class Telling:
    """What was refused is rolled back by then."""

    def __init__(self, metrics: DefinitionMetrics) -> None:
        self._metrics = metrics

    async def tell(self, database: Database, caller: Caller, verb: str, problems: Sequence[FieldProblem]) -> None:
        """Count foreign names among the problems, and keep them for their owners."""
        if any(isinstance(one, ForeignName) for one in problems):
            async with database.begin(reason=f"{verb} refused") as work:
                await self.tell_with(work, caller.name, verb, problems)

    async def tell_with(self, work: UnitOfWork, writer: str, verb: str, problems: Sequence[FieldProblem]) -> None:
        """The same with what else follows from the refusal: of a writer that does not call at this moment."""
        foreign = [one for one in problems if isinstance(one, ForeignName)]
        for one in foreign:
            self._metrics.refused_writes.labels(verb, one.cause).inc()
        if foreign:
            await note_refused(work.connection, writer, verb, foreign)
