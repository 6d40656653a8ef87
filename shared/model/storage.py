"""A storage endpoint: space in GB and which activities it serves now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from shared.model.problems import Problem, problems_of
from shared.model.queue import Name

# An activity in one of these states does not work; everything else counts as working.
DOWN = ("OFF", "TEST")


@dataclass(frozen=True)
class Storage:
    """One endpoint; `disabled` names the activities (read_lan, write_wan, ...) that are off or in test."""

    name: str
    site: str
    type: str
    is_tape: bool
    space_total_gb: float
    space_free_gb: float
    space_expired_gb: float
    space_min_free_gb: float
    space_unavailable_gb: float
    space_used_gb: float = 0.0
    token: str = ""
    blacklisted_read: bool = False
    blacklisted_write: bool = False
    detailed_status: Mapping[str, str] | None = None
    space_at: datetime | None = None

    @property
    def space_usable_gb(self) -> float:
        """Free and expired space less what must stay free and what is unavailable."""
        usable = self.space_free_gb + self.space_expired_gb - self.space_min_free_gb - self.space_unavailable_gb
        return max(0.0, usable)

    def works(self, activity: str) -> bool:
        """Whether an activity such as `write_lan` works: neither blacklisted nor in a down-time."""
        blacklisted = self.blacklisted_read if activity.startswith("read") else self.blacklisted_write
        return not blacklisted and (self.detailed_status or {}).get(activity, "ON") not in DOWN


YesNo = Annotated[
    Literal["Y", "N"], BeforeValidator(lambda value: {True: "Y", False: "N", None: "N"}.get(value, value))
]
Gigabytes = Annotated[float, BeforeValidator(lambda value: 0 if value is None else value), Field(ge=0, le=1e9)]


class CricStorage(BaseModel):
    """The edge: one record of storages.json."""

    model_config = ConfigDict(extra="ignore")

    ddm_endpoint_name: Name
    site_name: Name
    ddm_spacetoken_name: str | None = ""
    type: Annotated[str, Field(min_length=1, max_length=40)]
    is_tape: YesNo = "N"
    space_total: Gigabytes = 0.0
    space_free: Gigabytes = 0.0
    space_used: Gigabytes = 0.0
    space_expired: Gigabytes = 0.0
    space_min_free: Gigabytes = 0.0
    space_unavailable: Gigabytes = 0.0
    space_timestamp: datetime | None = None
    blacklisted: YesNo = "N"
    blacklisted_read: YesNo = "N"
    blacklisted_write: YesNo = "N"
    detailed_status: dict[str, str] | None = None


def storage_from_cric(key: str, record: Mapping[str, Any], file: str = "storages.json") -> Storage | list[Problem]:
    """One record as a Storage, or everything that is wrong with it."""
    try:
        raw = CricStorage.model_validate({"ddm_endpoint_name": key, **record})
    except ValidationError as error:
        return problems_of(file, key, error)
    if key and raw.ddm_endpoint_name != key:
        return [
            Problem(
                file, key, "ddm_endpoint_name", f"{raw.ddm_endpoint_name!r} differs from the key it is listed under"
            )
        ]
    both = raw.blacklisted == "Y"
    return Storage(
        name=raw.ddm_endpoint_name,
        site=raw.site_name,
        type=raw.type,
        is_tape=raw.is_tape == "Y",
        space_total_gb=raw.space_total,
        space_free_gb=raw.space_free,
        space_expired_gb=raw.space_expired,
        space_min_free_gb=raw.space_min_free,
        space_unavailable_gb=raw.space_unavailable,
        space_used_gb=raw.space_used,
        token=raw.ddm_spacetoken_name or "",
        blacklisted_read=both or raw.blacklisted_read == "Y",
        blacklisted_write=both or raw.blacklisted_write == "Y",
        detailed_status=raw.detailed_status,
        space_at=raw.space_timestamp,
    )
