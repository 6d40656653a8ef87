"""Settings of a process, from environment variables that start with ORRERY_.

A service with settings of its own derives a class from `Settings`. A wrong value stops the service at start with the
name of the variable.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeVar

from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from shared.auth.addresses import Network, networks_of
from shared.model.log_lines import without_secrets

PREFIX = "ORRERY_"


class SettingsError(Exception):
    """One or more environment variables are missing or wrong; the text names each of them."""


class ListeningSettings(BaseSettings):
    """Those of every process that answers HTTP, the gateway of `make up` too."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="ignore", frozen=True, env_ignore_empty=True)

    http_host: str = Field("127.0.0.1", description="the address to listen at")
    http_port: int = Field(8080, ge=0, le=65535, description="0: a free port")
    identity_file: Path | None = Field(None, description="JSON: other issuers of tokens, and TLS proxies")
    forwarders: str = Field("", description="proxies whose X-Forwarded-For is believed: addresses and networks, commas")
    connections_per_address: int = Field(12_000, ge=1, description="at most 80 % of all that the process can have")
    slow_requests_per_address: int = Field(100, ge=1, description="begun and not whole after 5 s")

    log_format: Literal["plain", "json"] = Field("plain", description="plain or json, a record a line")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field("INFO", description="DEBUG, INFO, WARNING, ERROR")

    @field_validator("forwarders")
    @classmethod
    def _networks(cls, value: str) -> str:
        networks_of(value)
        return value

    @property
    def forwarding_networks(self) -> tuple[Network, ...]:
        return networks_of(self.forwarders)


class AnsweringSettings(ListeningSettings):
    """Those of every service, with or without a database."""

    calls_per_caller_per_s: float = Field(100.0, ge=0, description="beside those of pilots; 0: no limit")
    calls_per_address_per_s: float = Field(200.0, ge=0, description="without a token; 0: no limit")
    refused_tokens_per_address_per_s: float = Field(20.0, ge=0, description="then none is looked at; 0: no limit")
    call_burst_s: float = Field(60.0, ge=1, le=3600, description="whose calls may come at once, after a pause")

    graceful_stop_s: float = Field(15.0, gt=0, le=600, description="how long running handlers may take at a stop")


class HearingSettings(AnsweringSettings):
    """Those of every service that hears events, with or without a database."""

    rabbitmq_url: str | None = Field(None, description="amqp://...; absent: in-process transport (one process only)")
    bus_namespace: str = Field("", pattern=r"^[a-z0-9-]{0,40}$", description="prefix of all exchanges and queues")

    @field_validator("rabbitmq_url")
    @classmethod
    def _rabbitmq_scheme(cls, value: str | None) -> str | None:
        return None if value is None else _with_scheme(value, ("amqp://", "amqps://"))


class Settings(HearingSettings):
    """Every service with a database has these."""

    database_url: str = Field(description="postgresql://user@host:port/name")
    redis_url: str | None = Field(None, description="redis://...; absent: no cache, everything is read from PostgreSQL")

    database_pool_size: int = Field(8, ge=2, le=200, description="sessions of the database of each process")
    prefetch_count: int = Field(16, ge=1, le=1000, description="handlers running at once per queue and replica")

    cache_prefix: str = Field("orrery:", description="before every key in Redis")

    token_key_file: Path = Field(
        Path(".local/token_key.pem"), description="our own issuer's keys, the first of which signs"
    )
    token_key: str | None = Field(None, description="the key itself in PEM form; wins over the file")
    source_key_file: Path = Field(Path(".local/source_key"), description="keys that sign the source URLs of jobs")

    random_seed: int | None = Field(None, description="seed of every random choice; absent: a fresh one")

    @field_validator("database_url")
    @classmethod
    def _database_scheme(cls, value: str) -> str:
        return _with_scheme(value, ("postgresql://", "postgres://"))

    @field_validator("redis_url")
    @classmethod
    def _redis_scheme(cls, value: str | None) -> str | None:
        return None if value is None else _with_scheme(value, ("redis://", "rediss://", "unix://"))


def _with_scheme(value: str, schemes: tuple[str, ...]) -> str:
    if not value.startswith(schemes):
        raise ValueError(f"must start with {' or '.join(schemes)}")
    return value


S = TypeVar("S", bound=ListeningSettings)


def load_settings(cls: type[S], **overrides: object) -> S:
    """Read the environment; SettingsError names every wrong variable, its value and what is allowed."""
    try:
        return cls(**overrides)  # type: ignore[arg-type]
    except ValidationError as error:
        lines = []
        for problem in error.errors():
            variable = PREFIX + "_".join(str(part) for part in problem["loc"]).upper()
            if problem["type"] == "missing":
                lines.append(f"{variable} is not set")
            else:
                lines.append(f"{variable}={problem['input']!r}: {problem['msg']}")
        raise SettingsError(without_secrets("\n".join(lines))) from None
