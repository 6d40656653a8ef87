"""Whom and what a process believes, by its settings: issuers, TLS proxies, signed source URLs."""

from __future__ import annotations

from collections.abc import Collection

from shared.auth import Authority
from shared.auth.configuration import IdentityFile
from shared.config.settings import ListeningSettings, Settings, SettingsError
from shared.signed_sources import SourceKeys

#: they sign the source URLs of jobs, and verify them
SIGN_SOURCES = frozenset({"job-dispatch", "task-definition"})


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


def source_keys_of(settings: Settings, services: Collection[str]) -> SourceKeys:
    """The keys of the file, which the services that need them must have. Raises SettingsError."""
    if SIGN_SOURCES.isdisjoint(services):
        return SourceKeys.generate()
    variable = f"ORRERY_SOURCE_KEY_FILE={settings.source_key_file}"
    try:
        return SourceKeys.from_file(settings.source_key_file)
    except OSError as error:
        made = "`python -m shared.signed_sources.keys FILE` makes it, once for job_dispatch and task_definition"
        raise SettingsError(f"{variable}: {error.strerror}; {made}") from None
    except ValueError as error:
        raise SettingsError(f"{variable}: {error}") from None


def identity_of(settings: ListeningSettings) -> IdentityFile:
    """Whom else to believe. Raises SettingsError."""
    if settings.identity_file is None:
        return IdentityFile()
    try:
        return IdentityFile.from_file(settings.identity_file)
    except OSError as error:
        raise SettingsError(f"ORRERY_IDENTITY_FILE={settings.identity_file}: {error.strerror}") from None
    except ValueError as error:
        raise SettingsError(f"ORRERY_IDENTITY_FILE={settings.identity_file}: {error}") from None
