"""Stage-ins of catalogues outside: a rule with a lifetime, from the tape to the disk."""

from __future__ import annotations

from services.task_definition.data.cataloguing.working import CatalogueRequest, Done, Later
from services.task_definition.data.wishing import Wishes
from services.task_definition.parameters import STAGING_LOOK_UP_S
from services.task_definition.tasks.staging.staging import Staging
from shared.catalogue.outside import DataName, NewRule, OutsideCatalogue
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork

ACTIVITY = "Staging"


class OutsideStaging:
    """Makes the rule, and has the dataset read again as long as its files arrive."""

    def __init__(self, staging: Staging, wishes: Wishes, parameters: Parameters) -> None:
        self._staging, self._wishes, self._parameters = staging, wishes, parameters

    async def stage(self, request: CatalogueRequest, catalogue: OutsideCatalogue) -> Done | Later:
        """Make the rule, or see how far it is."""
        about, wait_s = request.details, self._parameters.read(STAGING_LOOK_UP_S)
        if request.rule_id is None:
            rule_id = await catalogue.create_rule(
                NewRule(
                    DataName(about["scope"], about["dataset"]),
                    about["destination"],
                    ACTIVITY,
                    int(about["lifetime_s"]),
                    source=about["source"],
                    comment=f"input of task {request.task_id}",
                )
            )
            return Later(wait_s, rule_id)
        found = (await catalogue.look_at([request.rule_id]))[request.rule_id]
        if found.outcome == "gone":
            text = f"rule {request.rule_id} stages nothing: {found.reason}"
            return Done(lambda work: self._end(work, request, text), is_lost=True, reason=text)
        if found.outcome == "done":
            return Done(lambda work: self._end(work, request, None))
        return Later(wait_s, reason=found.reason or None, apply=lambda work: self._read(work, request))

    async def _end(self, work: UnitOfWork, request: CatalogueRequest, error: str | None) -> None:
        await self._staging.end(work, request.details["stage_in_id"], error=error)
        await self._read(work, request)

    async def _read(self, work: UnitOfWork, request: CatalogueRequest) -> None:
        """What has arrived is worked on."""
        await self._wishes.read_now(work, request.task_id, request.vo, request.details["dataset"])
