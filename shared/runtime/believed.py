"""Whom a process believes, by its settings: our own issuer, other issuers, TLS proxies."""

from __future__ import annotations

from shared.auth import Authority
from shared.auth.configuration import IdentityFile
from shared.config.settings import Settings, SettingsError


def authority_of(settings: Settings) -> Authority:
    """Our own issuer, or the public half of its key. Raises SettingsError."""
    if settings.token_key is not None:
        try:
            return Authority.from_pem(settings.token_key)
        except ValueError as error:
            raise SettingsError(f"ORRERY_TOKEN_KEY: {error}") from None
    try:
        return Authority.from_file(settings.token_key_file)
    except OSError as error:
        raise SettingsError(f"ORRERY_TOKEN_KEY_FILE={settings.token_key_file}: {error.strerror}") from None
    except ValueError as error:
        raise SettingsError(f"ORRERY_TOKEN_KEY_FILE={settings.token_key_file}: {error}") from None


def identity_of(settings: Settings) -> IdentityFile:
    """Whom else to believe. Raises SettingsError."""
    if settings.identity_file is None:
        return IdentityFile()
    try:
        return IdentityFile.from_file(settings.identity_file)
    except OSError as error:
        raise SettingsError(f"ORRERY_IDENTITY_FILE={settings.identity_file}: {error.strerror}") from None
    except ValueError as error:
        raise SettingsError(f"ORRERY_IDENTITY_FILE={settings.identity_file}: {error}") from None
