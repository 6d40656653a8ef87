"""Settings of task_definition: those of every service, and how often it looks by itself."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

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
