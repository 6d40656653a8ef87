"""Which VO's data is in which catalogue outside: a TOML file that operators write.

    [vo.atlas]
    kind = "rucio"
    host = "https://rucio.example.org"
    account = "orrery"
    transfer_scope = "orrery"          # datasets of transfers are registered in it
    login = {kind = "x509", certificate_file = "/etc/orrery/cert.pem", key_file = "/etc/orrery/key.pem"}

A VO that the file does not name has its data in the built-in catalogue. Secrets are in files that it names.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from shared.catalogue.outside import OutsideCatalogue
from shared.config.settings import SettingsError


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


def read_catalogues(file: Path) -> dict[str, RucioSettings]:
    """Settings by VO. Raises SettingsError with every field that is wrong."""
    try:
        content = tomllib.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise SettingsError(f"{file}: {error}") from None
    vos = content.pop("vo", {})
    problems = [f"{file}: {name!r} is not allowed; allowed: tables [vo.NAME]" for name in sorted(content)]
    found: dict[str, RucioSettings] = {}
    for vo, given in vos.items() if isinstance(vos, dict) else ():
        try:
            found[vo] = RucioSettings.model_validate(given)
        except ValidationError as error:
            for one in error.errors():
                where = ".".join(str(part) for part in ("vo", vo, *one["loc"]))
                problems.append(f"{file}: {where}: {one['msg']}{_value(one)}")
    if problems:
        raise SettingsError("\n".join(problems))
    return found


def _value(problem: Mapping[str, Any]) -> str:
    return "" if isinstance(problem["input"], dict) else f", not {problem['input']!r}"


def open_catalogue(settings: RucioSettings) -> OutsideCatalogue:
    """The adapter. Its library is read only where a VO uses it."""
    from shared.catalogue.rucio.adapter import RucioCatalogue

    return RucioCatalogue(settings)
