"""Tells those to whom a name belongs that somebody else was about to write it."""

from __future__ import annotations

from collections.abc import Sequence

from services.task_definition.metrics import DefinitionMetrics
from services.task_definition.policy.scopes import ForeignName
from services.task_definition.store.scopes import note_refused
from shared.auth import Caller
from shared.db.database import Database
from shared.model.problems import FieldProblem


class Telling:
    """After the refusal: what was refused is rolled back by then."""

    def __init__(self, database: Database, metrics: DefinitionMetrics) -> None:
        self._database, self._metrics = database, metrics

    async def tell(self, caller: Caller, verb: str, problems: Sequence[FieldProblem]) -> None:
        """Count foreign names among the problems, and keep them for their owners."""
        foreign = [one for one in problems if isinstance(one, ForeignName)]
        for one in foreign:
            self._metrics.refused_writes.labels(verb, one.cause).inc()
        if foreign:
            async with self._database.begin(reason=f"{verb} refused") as work:
                await note_refused(work.connection, caller.name, verb, foreign)
