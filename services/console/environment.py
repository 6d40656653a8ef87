"""Settings of the console: whom it asks, where browsers find it, and what seals its sessions."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, field_validator

from shared.auth.keyring import Keyring
from shared.config.settings import HearingSettings, SettingsError


class ConsoleSettings(HearingSettings):
    """What is fixed for the life of a process."""

    api_url: str | None = Field(
        None, description="the one address of every service, which the console asks; absent: where it is called itself"
    )
    console_public_url: str | None = Field(
        None, description="the one address as browsers see it; where it begins with https://, cookies need TLS"
    )
    console_key_file: Path | None = Field(
        None, description="keys that seal sessions, the same for all copies; absent: they end with the process"
    )
    console_session_h: float = Field(12.0, gt=0, le=720, description="hours until one signs in again")

    @field_validator("api_url", "console_public_url")
    @classmethod
    def _address(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("http://", "https://")):
            raise ValueError("must start with http:// or https://")
        return value.rstrip("/") if value else None


def keyring_of(settings: ConsoleSettings) -> Keyring:
    """The keys of sessions. Raises SettingsError."""
    path = settings.console_key_file
    if path is None:
        return Keyring.generate()
    try:
        return Keyring(path)
    except OSError as error:
        made = "`orrery secrets add-key FILE` makes one"
        raise SettingsError(f"ORRERY_CONSOLE_KEY_FILE={path}: {error.strerror}; {made}") from None
    except ValueError as error:
        raise SettingsError(f"ORRERY_CONSOLE_KEY_FILE={path}: {error}") from None
