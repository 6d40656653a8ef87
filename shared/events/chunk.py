"""Events about chunks: a part of a task's input on its way to become jobs."""

from datetime import datetime

from pydantic import BaseModel, ConfigDict

from shared.events.base import Event


class ChunkEvent(Event):
    """Every event about one chunk."""

    chunk_id: int
    task_id: int


class ChunkOffered(ChunkEvent):
    """Files were picked for the chunk; it needs queues."""


class QueueChoice(BaseModel):
    """One ranked queue: weight is relative; ``max_jobs`` None means no limit of its own."""

    model_config = ConfigDict(frozen=True)
    queue: str
    resource_type: str
    weight: float
    max_jobs: int | None = None


class ChunkBrokered(ChunkEvent):
    """Queues were ranked, best first; ``jumbo_queues``: where a jumbo job may be, or None: not asked."""

    decision_id: int
    candidates: tuple[QueueChoice, ...]
    jumbo_queues: tuple[QueueChoice, ...] | None = None


class ChunkUnplaceable(ChunkEvent):
    """No queue passed; the decision says why, ``retry_at`` when to look again. ``jumbo_queues``: as above."""

    decision_id: int
    reason: str
    retry_at: datetime
    jumbo_queues: tuple[QueueChoice, ...] | None = None
