"""/api/v1/site/advertise: a site says what it has, what it takes and its Requirements (SAM-Grid)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response
from pydantic import ConfigDict, Field, field_validator

from services.job_dispatch.acquire.site_requirements import SiteRequirements
from services.job_dispatch.api.body import HEARTBEAT, fields_of
from services.job_dispatch.api.requests import ROLE, RequestFields, parse
from services.job_dispatch.parameters import ADVERTISERS
from services.job_dispatch.store import adverts
from shared.auth import Caller, access, require
from shared.auth.named import is_named
from shared.brokerage.matchmaking import ADVERTISED_EVERY, Advert, RefusedRequirements, parsed, unreadable
from shared.config.parameters import Parameters
from shared.db.database import Database
from shared.model.problems import FieldProblem
from shared.snapshot import KnownGrid
from shared.web.envelope import BAD_REQUEST, Envelope, refused
from shared.web.json_route import JsonRoute

Jobs = Annotated[int, Field(ge=0, le=10_000_000)]
Words = Annotated[str, Field(min_length=1, max_length=500)]

ADVERTISER = require(access.NAMED, "pilot", "production", "operator", right="modify")


class SiteAdvertisement(RequestFields):
    """The field's names; `Attributes` are anything else that Requirements of jobs may ask for."""

    model_config = ConfigDict(extra="forbid")
    Site: Annotated[str, Field(min_length=1, max_length=100, description="native site or forwarding node")]
    Kind: Literal["native", "forwarding"] = "native"
    MaxJobs: Jobs | None = None
    MaxSubmittingJobs: Jobs | None = None
    CurrentJobs: Jobs = 0
    CurrentSubmittingJobs: Jobs = 0
    Requirements: str | None = None
    EntryPoint: Words | None = None
    Station: Words | None = None
    Monitor: Words | None = None
    Attributes: dict[Annotated[str, Field(pattern="^[A-Za-z_][A-Za-z0-9_]*$")], str | int | float | bool] = {}

    @field_validator("Requirements")
    @classmethod
    def _is_expression(cls, value: str | None) -> str | None:
        try:
            if value:
                parsed(value)
            return value or None
        except RefusedRequirements as error:
            raise ValueError(error.reason.rstrip(".")) from None

    @field_validator("Attributes")
    @classmethod
    def _make_a_class_ad(cls, value: dict[str, Any]) -> dict[str, Any]:
        reason = unreadable(Advert("", attributes=value))
        if reason is not None:
            raise ValueError(reason)
        return value

    def numbers(self) -> dict[str, int | None]:
        """Limits and counts under the names of the columns."""
        return {
            "max_jobs": self.MaxJobs,
            "max_submitting_jobs": self.MaxSubmittingJobs,
            "current_jobs": self.CurrentJobs,
            "current_submitting_jobs": self.CurrentSubmittingJobs,
        }

    def advertisement(self) -> dict[str, Any]:
        """What the site's ClassAd has besides its numbers."""
        stated = {"Kind": self.Kind, "EntryPoint": self.EntryPoint, "Station": self.Station, "Monitor": self.Monitor}
        return {**self.Attributes, **{name: value for name, value in stated.items() if value is not None}}


def advert_routes(database: Database, sites: SiteRequirements, parameters: Parameters, grid: KnownGrid) -> APIRouter:
    """Make the route that takes advertisements; jobs are handed out under them from then on."""
    router = APIRouter(route_class=JsonRoute, prefix="/api/v1/site", tags=["sites"])

    @router.post("/advertise", openapi_extra=_BODY)
    async def advertise(request: Request, caller: Annotated[Caller, Depends(ADVERTISER)]) -> Response:
        """Replace the site's advertisement; it is believed for five minutes.

        CurMatches starts again at CurrentJobs.
        """
        advert = parse(SiteAdvertisement, await fields_of(request, HEARTBEAT))
        # an advertisement holds for the jobs of every VO
        named = is_named(parameters.read(ADVERTISERS), advert.Site, caller.name)
        if not named and not access.produces_for_all(caller, ()):
            text = f"{caller.name} may not advertise {advert.Site}: job_dispatch.ADVERTISERS does not name them for it"
            return Envelope({"StatusCode": ROLE}, text, success=False, status_code=403)
        async with database.read() as connection:
            known = advert.Site in (await grid.grid(connection)).sites
        if not known:
            said = f"Site: value {advert.Site!r} is not allowed; allowed: a site of the grid"
            return refused(BAD_REQUEST, problems=[FieldProblem("Site", repr(advert.Site), "a site of the grid", said)])
        async with database.begin(reason=f"advertised by {caller.name}") as work:
            expires_at = work.now + ADVERTISED_EVERY
            await adverts.advertise(
                work.connection,
                advert.Site,
                advert.numbers(),
                requirements=advert.Requirements,
                advertisement=advert.advertisement(),
                expires_at=expires_at,
            )
        async with database.read() as connection:
            await sites.refresh(connection)
        return Envelope({"Site": advert.Site, "expires_at": expires_at.isoformat()})

    return router


_SCHEMA = SiteAdvertisement.model_json_schema()
_BODY = {"requestBody": {"content": {"application/json": {"schema": _SCHEMA}}, "required": True}}
