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
from typing import Any

from pydantic import ValidationError

from shared.catalogue.outside import OutsideCatalogue
from shared.catalogue.rucio.settings import RucioSettings
from shared.config.settings import SettingsError


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
