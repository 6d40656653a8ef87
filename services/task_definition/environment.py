"""Settings of task_definition: those of every service, and how often it looks by itself."""

from __future__ import annotations

from pydantic import Field

from shared.config.settings import Settings


class TaskDefinitionSettings(Settings):
    """Periods in seconds."""

    transfers_every_s: float = Field(1.0, gt=0, le=3600, description="how often due transfers are completed")
    left_overs_every_s: float = Field(30.0, gt=0, le=3600, description="how often tasks on their way out are settled")
