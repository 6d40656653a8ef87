"""Finds the services.

`ORRERY_<SERVICE>_URL` says where one is, `ORRERY_URL`, `.local/run.json` or the last login where all are.

The record, which the supervisor writes, is looked for in the current directory and those above it, then in the clone
that the command was installed from, so that `orrery` works from anywhere in it. A login counts where no system runs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import httpx

from services.cli.failures import Unreachable, WrongUsage
from services.cli.logins import SystemLogin, read_logins

SERVICES = (
    "task_definition",
    "task_brokerage",
    "job_generation",
    "job_brokerage",
    "job_dispatch",
    "watchdog",
    "jumbo_watchdog",
    "share_correction",
    "console",
)
PROJECT = Path(__file__).resolve().parents[2]
RECORD = Path(".local") / "run.json"
RUN_FILE_VARIABLE = "ORRERY_RUN_FILE"
URL_VARIABLE = "ORRERY_URL"
KEY_VARIABLE = "ORRERY_TOKEN_KEY_FILE"


@dataclass(frozen=True)
class Addresses:
    """The services' URLs as far as they are known, and the file with the development issuer's key.

    `elsewhere`: the one address of a system that is not this machine's, and the login there, if there was one. A token
    that the key of this machine signed is never sent there. `gateway`: the one address of this machine's system.
    """

    urls: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    token_key_file: Path | None = None
    record: Path | None = None
    elsewhere: str | None = None
    login: SystemLogin | None = None
    gateway: str | None = None

    @property
    def one_address(self) -> str | None:
        """The address that answers every path of every service; None where none is known."""
        return self.elsewhere or self.gateway

    def urls_of(self, service: str) -> tuple[str, ...]:
        """Where the copies of this service answer. Raises Unreachable where no address is known."""
        urls = self.urls.get(service)
        if not urls:
            where = f"{self.record} does not name it" if self.record else f"there is no {RECORD}"
            raise Unreachable(
                f"{service}: address unknown ({where}; {variable_of(service)} is not set). Is the system up? `make up` "
                f"starts it; for one at another machine set {URL_VARIABLE}, or log in: `orrery login URL`"
            )
        return urls


def variable_of(service: str) -> str:
    """task_definition -> ORRERY_TASK_DEFINITION_URL."""
    return f"ORRERY_{service.upper()}_URL"


def find_addresses(start: Path | None = None) -> Addresses:
    """Read the environment and the supervisor's record. Raises WrongUsage for a record that is not one."""
    one = os.environ.get(URL_VARIABLE)
    record, content = (None, {}) if one else _record(start or Path.cwd())
    logins = read_logins()
    if not one and not content.get("urls"):
        one = logins.last
    if one:
        elsewhere = checked_url(one, URL_VARIABLE)
        urls = dict.fromkeys(SERVICES, (elsewhere,)) | _named()
        key = os.environ.get(KEY_VARIABLE)
        return Addresses(urls, Path(key) if key else None, None, elsewhere, logins.of.get(elsewhere))
    urls = {}
    for name, value in (content.get("urls") or content.get("services") or {}).items():
        found = [value] if isinstance(value, str) else value
        urls[str(name).replace("-", "_")] = tuple(str(url).rstrip("/") for url in found)
    key = os.environ.get(KEY_VARIABLE) or content.get("token_key_file")
    gateway = content.get("gateway")
    return Addresses(urls | _named(), Path(key) if key else None, record, gateway=str(gateway) if gateway else None)


def _named() -> dict[str, tuple[str, ...]]:
    """Services that have a variable of their own."""
    given = ((service, os.environ.get(variable_of(service))) for service in SERVICES)
    return {service: (checked_url(url, variable_of(service)),) for service, url in given if url}


def checked_url(url: str, where: str) -> str:
    """An address as it is called. Raises WrongUsage for what is none."""
    try:
        is_one = url.startswith(("http://", "https://")) and httpx.URL(url).host
    except httpx.InvalidURL:
        is_one = False
    if not is_one:
        raise WrongUsage(f"{where}={url!r}: must start with http:// or https://, and name a host")
    return url.rstrip("/")


def is_this_machine(url: str) -> bool:
    """Whether an address is one of a loopback."""
    host = httpx.URL(url).host
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _record(start: Path) -> tuple[Path | None, dict[str, Any]]:
    named = os.environ.get(RUN_FILE_VARIABLE)
    places = [Path(named)] if named else [part / RECORD for part in (start, *start.parents, PROJECT)]
    for path in places:
        try:
            text = path.read_text(encoding="utf-8")
        except OSError:
            continue
        try:
            content = json.loads(text)
        except ValueError as error:
            raise WrongUsage(f"{path}: not JSON: {error}") from None
        if not isinstance(content, dict):
            raise WrongUsage(f"{path}: must be an object with the key 'urls'")
        return path, content
    return None, {}
