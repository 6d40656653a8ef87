"""Settings of the console: whom it asks, where browsers find it, and what seals its sessions."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, field_validator, model_validator

from services.console.identifying import BACK, Client
from shared.auth.configuration import encrypted
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

    console_issuer: str | None = Field(
        None, description="OpenID Connect issuer at which people sign in, as ORRERY_IDENTITY_FILE names it"
    )
    console_client_id: str | None = Field(None, description="its client there, in the audience of that issuer")
    console_client_secret_file: Path | None = Field(
        None, description="holds the secret of that client; absent: a public client, which PKCE alone protects"
    )
    console_scopes: str = Field("openid profile", description="what is asked for there: with groups, if it has scopes")
    redis_url: str | None = Field(
        None, description="tells other copies which links were used and who signed out; absent: this copy alone knows"
    )
    cache_prefix: str = Field("orrery:", description="before every key in Redis")

    @field_validator("console_issuer")
    @classmethod
    def _is_encrypted(cls, value: str | None) -> str | None:
        return encrypted(value) if value else None

    @model_validator(mode="after")
    def _issuer_has_what_it_needs(self) -> ConsoleSettings:
        if self.console_issuer and not (self.console_client_id and self.console_public_url):
            raise ValueError("console_issuer: needs console_client_id, and console_public_url to send people back to")
        return self

    @field_validator("api_url", "console_public_url")
    @classmethod
    def _address(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("http://", "https://")):
            raise ValueError("must start with http:// or https://")
        return value.rstrip("/") if value else None


def client_of(settings: ConsoleSettings) -> Client | None:
    """What the issuer knows the console as; None where people do not sign in at one. Raises SettingsError."""
    if not (settings.console_issuer and settings.console_client_id):
        return None
    path, secret = settings.console_client_secret_file, ""
    if path is not None:
        try:
            secret = path.read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as error:
            raise SettingsError(f"ORRERY_CONSOLE_CLIENT_SECRET_FILE={path}: {error}") from None
    redirect_uri = f"{settings.console_public_url}{BACK}"
    return Client(settings.console_issuer, settings.console_client_id, secret, settings.console_scopes, redirect_uri)


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
