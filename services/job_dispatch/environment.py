"""Settings of this service beyond those of every service."""

from __future__ import annotations

import logging
from pathlib import Path

from pydantic import Field

from shared.auth.keyring import VARIABLE, Keyring
from shared.config.settings import Settings, SettingsError

log = logging.getLogger(__name__)


class DispatchSettings(Settings):
    """What is fixed for the life of a process."""

    claim_sessions: int = Field(2, ge=1, le=16, description="connections that claim jobs")
    read_sessions: int = Field(2, ge=1, le=16, description="connections that read the windows")
    claim_batch_limit: int = Field(128, ge=1, le=1000, description="claims in one statement")
    report_sessions: int = Field(2, ge=1, le=16, description="transactions that store reports at the same time")
    report_batch_limit: int = Field(200, ge=1, le=2000, description="reports in one transaction")
    report_collect_s: float = Field(0.05, ge=0.0, le=1.0, description="wait for more reports where many arrive")
    credentials_directory: Path | None = Field(None, description="folder with proxies/ and key_pairs/ for pilots")
    secrets_key_file: Path | None = Field(None, description="keys of secrets; absent: none are kept")


def keyring_of(settings: DispatchSettings) -> Keyring:
    """The keys of secrets. Raises SettingsError."""
    path = settings.secrets_key_file
    if path is None:
        log.warning("no secrets are kept: %s names no file with keys", VARIABLE)
    try:
        return Keyring(path)
    except OSError as error:
        made = "`orrery secrets add-key FILE` makes one"
        raise SettingsError(f"{VARIABLE}={path}: {error.strerror}; {made}") from None
    except ValueError as error:
        raise SettingsError(f"{VARIABLE}={path}: {error}") from None
