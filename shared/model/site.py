"""A site: the place that queues and storages belong to, and that may be a nucleus."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from shared.model.problems import Problem, problems_of
from shared.model.queue import Name, Text, Words, options_of

ACTIVE = "ACTIVE"


@dataclass(frozen=True)
class Site:
    """One site; a nucleus aggregates the output of the tasks that are assigned to it."""

    name: str
    state: str
    tier_level: int = 2
    cloud: str = ""
    is_nucleus: bool = False
    bare_nucleus: str = ""
    default_storage: str = ""


class CricSite(BaseModel):
    """The edge: one record of sites.json; `datapolicies` holding "Nucleus" makes it a nucleus."""

    model_config = ConfigDict(extra="ignore")

    name: Name
    state: Annotated[str, Field(pattern="^(ACTIVE|DISABLED|INACTIVE)$")]
    tier_level: Annotated[int, Field(ge=0, le=4)] = 2
    cloud: Text = ""
    datapolicies: Words = ()
    catchall: Text = ""
    params: Annotated[dict[str, Any], BeforeValidator(lambda value: value or {})] = {}
    default_ddm_endpoint: Text = ""


def site_from_cric(key: str, record: Mapping[str, Any], file: str = "sites.json") -> Site | list[Problem]:
    """One record as a Site, or everything that is wrong with it."""
    try:
        raw = CricSite.model_validate({"name": key, **record})
    except ValidationError as error:
        return problems_of(file, key, error)
    if key and raw.name != key:
        return [Problem(file, key, "name", f"{raw.name!r} differs from the key it is listed under")]
    bare = options_of(raw.catchall, raw.params).get("bareNucleus", "")
    if bare not in {"", "only", "allow"}:
        return [Problem(file, key, "bareNucleus", f"{bare!r} is not allowed; only, allow or nothing is")]
    return Site(
        name=raw.name,
        state=raw.state,
        tier_level=raw.tier_level,
        cloud=raw.cloud,
        is_nucleus="Nucleus" in raw.datapolicies,
        bare_nucleus=bare,
        default_storage=raw.default_ddm_endpoint,
    )
