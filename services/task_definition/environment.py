"""Settings of task_definition: those of every service, and how often it looks by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, SecretStr, model_validator

from shared.config.settings import Settings


class TaskDefinitionSettings(Settings):
    """Periods in seconds."""

    transfers_every_s: float = Field(1.0, gt=0, le=3600, description="how often due transfers are completed")
    periodic_tasks_every_s: float = Field(5.0, gt=0, le=3600, description="how often due periodic tasks are submitted")
    left_overs_every_s: float = Field(30.0, gt=0, le=3600, description="how often tasks on their way out are settled")
    contents_every_s: float = Field(1.0, gt=0, le=3600, description="how often input that is not read is read on")
    input_checks_every_s: float = Field(1.0, gt=0, le=3600, description="how often due input is looked at again")
    catalogue_topic: str = Field(
        "rucio.events", min_length=1, max_length=200, description="RabbitMQ's topic that Rucio's hermes sends to"
    )
    catalogues_file: Path | None = Field(None, description="TOML: which VO has its data in which catalogue outside")
    mail_server: str = Field(
        "", pattern=r"^(|[^\s:]+:\d{1,5}|\[[0-9A-Fa-f:]+\]:\d{1,5})$",
        description="HOST:PORT by which owners are told what becomes of their tasks; empty: they are not told"
    )  # fmt: skip
    mail_from: str = Field("", max_length=254, description="from whom these letters are")
    mail_domain: str = Field("", max_length=253, description="where users without an address of their own have theirs")
    mail_user: str = Field("", max_length=254, description="who the mail server knows; empty: it asks for nobody")
    mail_password: SecretStr | None = Field(None, description="the password of that user")
    mail_encryption: Literal["starttls", "tls", "none"] = Field(
        "starttls", description="how the way to the mail server is encrypted"
    )
    mail_timeout_s: float = Field(10.0, gt=0, le=60, description="for how long an answer of the mail server is awaited")

    @model_validator(mode="after")
    def mail_has_a_sender(self) -> Self:
        """A mail server asks for an address that letters are from."""
        if self.mail_server and "@" not in self.mail_from:
            raise ValueError(
                f"mail_from {self.mail_from!r}: with mail_server it has to be an address, such as orrery@example.org"
            )
        return self
