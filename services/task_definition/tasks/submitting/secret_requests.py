"""Requests for the secrets of somebody else: counted by cause, told to their owner by the audit log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prometheus_client import CollectorRegistry

from services.task_definition.desk.store.audit import audit
from services.task_definition.metrics import DefinitionMetrics
from services.task_definition.tasks.submitting.submission import SubmissionRefused
from shared.auth import Caller
from shared.db.database import Database
from shared.db.unit_of_work import UnitOfWork
from shared.model.secret_notes import ASKED, secrets_of

#: of a name that was sent, how much is told
_SHOWN = 200


class SecretRequests:
    """The owner reads them where they list their secrets (job_dispatch: `creds/list_user_secrets`)."""

    def __init__(self, database: Database, metrics: CollectorRegistry) -> None:
        self._database = database
        self._refused = DefinitionMetrics.of(metrics).refused_secrets

    def count(self, cause: str) -> None:
        """One more."""
        self._refused.labels(cause).inc()

    async def tell(self, caller: Caller, parameters: Mapping[str, Any], refusal: SubmissionRefused) -> None:
        """Note a refused submission that asked for the secrets of somebody else; nothing for any other."""
        if refusal.secrets_of is None:
            return
        async with self._database.begin(reason=f"secrets of {refusal.secrets_of} asked for by {caller.name}") as work:
            await self.tell_with(work, caller, parameters, refusal)

    async def tell_with(
        self, work: UnitOfWork, caller: Caller, parameters: Mapping[str, Any], refusal: SubmissionRefused
    ) -> None:
        """The same with what else follows from the refusal: of somebody who does not call at this moment."""
        if refusal.secrets_of is None:
            return
        self.count("another_name")
        await audit(
            work.connection,
            caller=caller,
            verb=ASKED,
            target=secrets_of(refusal.secrets_of),
            outcome="refused",
            details={"vo": parameters.get("vo"), "task_name": str(parameters.get("taskName"))[:_SHOWN]},
        )
