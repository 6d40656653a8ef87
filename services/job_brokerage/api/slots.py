"""HTTP: the number of slots of a queue, by the field's call for Harvester and operators."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException
from pydantic import BaseModel, ConfigDict, Field

from services.job_brokerage.parameters import SLOT_SETTERS
from services.job_brokerage.store.slots import QueueSlots, RefusedSlots, SlotsSetting
from shared.auth import Caller, access, require
from shared.auth.named import is_named
from shared.config.parameters import Parameters
from shared.db.database import Database
from shared.web.envelope import BAD_REQUEST, Envelope, refused
from shared.web.json_route import JsonRoute

SETS_SLOTS = require(access.NAMED, "pilot", "production", "operator", right="modify")
MAX_SLOTS = 10_000_000


class TargetSlots(BaseModel):
    """`slots` 0: as many as jobs are starting; null: the setting is taken back.

    A date without time zone is in UTC.
    """

    model_config = ConfigDict(extra="forbid")
    panda_queue: Annotated[str, Field(min_length=1, max_length=120)]
    slots: Annotated[int, Field(ge=0, le=MAX_SLOTS, strict=True)] | None
    global_share: str | None = None
    resource_type: Annotated[str, Field(max_length=64)] | None = None
    expiration_date: datetime | None = None

    def setting(self) -> SlotsSetting:
        """What is to be stored. Raises RefusedSlots."""
        if self.global_share:
            # The document knows one number of slots for a queue, and brokerage weighs queues without regard to shares.
            allowed = "allowed: none; slots are for all shares of a queue"
            said = f"global_share {self.global_share!r}: {allowed}"
            raise RefusedSlots("global_share", self.global_share, allowed, said)
        until = self.expiration_date
        if until is not None and until.tzinfo is None:
            until = until.replace(tzinfo=UTC)
        return SlotsSetting(self.panda_queue, self.resource_type or "", self.slots, until)


def slots_routes(database: Database, slots: QueueSlots, parameters: Parameters) -> APIRouter:
    """Make the route `/api/v1/harvester/add_target_slots`."""
    routes = APIRouter(route_class=JsonRoute, prefix="/api/v1/harvester", tags=["harvester"])

    @routes.post("/add_target_slots")
    async def add_target_slots(body: TargetSlots, caller: Annotated[Caller, Depends(SETS_SLOTS)]) -> Envelope:
        """Set how many slots a queue, or one resource type of it, is to fill.

        The number holds until a date, or until the next setting. It decides how many jobs of every VO of the queue go
        there.
        """
        named = parameters.read(SLOT_SETTERS)
        if not is_named(named, body.panda_queue, caller.name):
            async with database.read() as connection:
                vos = await slots.vos_of(connection, body.panda_queue)
            if not access.produces_for_all(caller, vos):
                text = f"job_brokerage.SLOT_SETTERS does not name them for {body.panda_queue}"
                allowed = f"allowed: production of {' and '.join(sorted(vos)) or 'every VO'}, and operators"
                raise HTTPException(403, f"{caller.name} may not set slots: {text}; {allowed}")
        try:
            setting = body.setting()
            async with database.begin(reason=f"slots set by {caller.name}") as work:
                await slots.set(work, setting, caller)
        except RefusedSlots as error:
            return refused(BAD_REQUEST, problems=[error.problem])
        return Envelope()

    return routes
