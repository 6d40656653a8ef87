"""Settings of a process, from environment variables that start with ORRERY_.

A service with settings of its own derives a class from `Settings`. A wrong value stops the service at start with the
name of the variable.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeVar

from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

PREFIX = "ORRERY_"


class SettingsError(Exception):
    """One or more environment variables are missing or wrong; the text names each of them."""


class Settings(BaseSettings):
    """Every service has these."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="ignore", frozen=True, env_ignore_empty=True)

    database_url: str = Field(description="postgresql://user@host:port/name")
    rabbitmq_url: str | None = Field(None, description="amqp://...; absent: in-process transport (one process only)")
    redis_url: str | None = Field(None, description="redis://...; absent: no cache, everything is read from PostgreSQL")

    database_pool_size: int = Field(8, ge=2, le=200)
    prefetch_count: int = Field(16, ge=1, le=1000, description="handlers running at once per queue and replica")
    bus_namespace: str = Field("", pattern=r"^[a-z0-9-]{0,40}$", description="prefix of all exchanges and queues")

    cache_prefix: str = Field("orrery:", description="before every key in Redis")

    http_host: str = "127.0.0.1"
    http_port: int = Field(8080, ge=0, le=65535, description="0: a free port")

    token_key_file: Path = Path(".local/token_key.pem")
    token_key: str | None = Field(None, description="the key itself in PEM form; wins over the file")
    identity_file: Path | None = Field(None, description="JSON: other issuers of tokens, and TLS proxies")

    log_format: Literal["plain", "json"] = "plain"
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"

    graceful_stop_s: float = Field(15.0, gt=0, le=600, description="how long running handlers may take at a stop")
    random_seed: int | None = Field(None, description="seed of every random choice; absent: a fresh one")

    @field_validator("database_url")
    @classmethod
    def _database_scheme(cls, value: str) -> str:
        return _with_scheme(value, ("postgresql://", "postgres://"))

    @field_validator("rabbitmq_url")
    @classmethod
    def _rabbitmq_scheme(cls, value: str | None) -> str | None:
        return None if value is None else _with_scheme(value, ("amqp://", "amqps://"))

    @field_validator("redis_url")
    @classmethod
    def _redis_scheme(cls, value: str | None) -> str | None:
        return None if value is None else _with_scheme(value, ("redis://", "rediss://", "unix://"))


def _with_scheme(value: str, schemes: tuple[str, ...]) -> str:
    if not value.startswith(schemes):
        raise ValueError(f"must start with {' or '.join(schemes)}")
    return value


S = TypeVar("S", bound=Settings)


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
        raise SettingsError("\n".join(lines)) from None
