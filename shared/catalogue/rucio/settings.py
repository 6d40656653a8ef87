"""Where a VO's Rucio is, and who Orrery is there."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


class Login(BaseModel):
    """How to log in; everything secret is in a file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["token", "x509", "x509_proxy", "userpass"]
    token_file: Path | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None
    user_name: str | None = None
    password_file: Path | None = None

    @model_validator(mode="after")
    def _complete(self) -> Login:
        needed = {
            "token": ("token_file",),
            "x509": ("certificate_file", "key_file"),
            "x509_proxy": ("certificate_file",),
            "userpass": ("user_name", "password_file"),
        }[self.kind]
        given = {name for name in type(self).model_fields if name != "kind" and getattr(self, name) is not None}
        if given != set(needed):
            raise ValueError(f"kind {self.kind} needs {' and '.join(needed)}, and nothing else")
        return self


class RucioSettings(BaseModel):
    """One Rucio server, and who Orrery is there."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["rucio"]
    host: str = Field(pattern=r"^https?://[^\s]+$")
    auth_host: str | None = Field(None, pattern=r"^https?://[^\s]+$")
    account: str = Field(min_length=1, max_length=25)
    rucio_vo: str = Field("def", pattern=r"^[a-z0-9]{1,3}$", description="the name of the VO in a Rucio of several")
    transfer_scope: str = Field(min_length=1, max_length=25)
    login: Login
    ca_file: Path | None = None
    timeout_s: float = Field(60.0, gt=0, le=600, description="of each answer")
    threads: int = Field(4, ge=1, le=64, description="calls at once")
