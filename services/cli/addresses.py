"""Finds the services: `ORRERY_<SERVICE>_URL` wins over `.local/run.json`, which the supervisor writes.

The record is looked for in the current directory and those above it, then in the clone that the command was installed
from, so that `orrery` works from anywhere in it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from services.cli.failures import Unreachable, WrongUsage

SERVICES = (
    "task_definition",
    "task_brokerage",
    "job_generation",
    "job_brokerage",
    "job_dispatch",
    "watchdog",
    "jumbo_watchdog",
    "share_correction",
)
PROJECT = Path(__file__).resolve().parents[2]
RECORD = Path(".local") / "run.json"
RUN_FILE_VARIABLE = "ORRERY_RUN_FILE"


@dataclass(frozen=True)
class Addresses:
    """The services' URLs as far as they are known, and the file with the development issuer's key."""

    urls: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    token_key_file: Path | None = None
    record: Path | None = None

    def urls_of(self, service: str) -> tuple[str, ...]:
        """Where the copies of this service answer. Raises Unreachable where no address is known."""
        urls = self.urls.get(service)
        if not urls:
            where = f"{self.record} does not name it" if self.record else f"there is no {RECORD}"
            raise Unreachable(
                f"{service}: address unknown ({where}; {variable_of(service)} is not set). Is the system up? `make up`"
            )
        return urls


def variable_of(service: str) -> str:
    """task_definition -> ORRERY_TASK_DEFINITION_URL."""
    return f"ORRERY_{service.upper()}_URL"


def find_addresses(start: Path | None = None) -> Addresses:
    """Read the environment and the supervisor's record. Raises WrongUsage for a record that is not one."""
    record, content = _record(start or Path.cwd())
    urls: dict[str, tuple[str, ...]] = {}
    for name, value in (content.get("urls") or content.get("services") or {}).items():
        found = [value] if isinstance(value, str) else value
        urls[str(name).replace("-", "_")] = tuple(str(url).rstrip("/") for url in found)
    for service in SERVICES:
        named = os.environ.get(variable_of(service))
        if named:
            if not named.startswith(("http://", "https://")):
                raise WrongUsage(f"{variable_of(service)}={named!r}: must start with http:// or https://")
            urls[service] = (named.rstrip("/"),)
    key = os.environ.get("ORRERY_TOKEN_KEY_FILE") or content.get("token_key_file")
    return Addresses(urls, Path(key) if key else None, record)


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
