"""Events about moving data."""

from collections.abc import Hashable, Sequence
from typing import ClassVar, Self

from shared.events.base import Event, all_of


class TransfersEvent(Event):
    """Every event about transfers."""

    shares_transaction: ClassVar[bool] = True
    transfer_ids: tuple[int, ...]

    @property
    def n_subjects(self) -> int:
        return max(1, len(self.transfer_ids))

    @property
    def merge_key(self) -> Hashable:
        return None

    @classmethod
    def joined(cls, events: Sequence[Self]) -> Self:
        return events[0].model_copy(update={"transfer_ids": all_of(events, "transfer_ids")})


class TransfersRequested(TransfersEvent):
    """Rows of ``transfers`` wait to be given to the adapter."""


class TransfersCompleted(TransfersEvent):
    """These transfers ended; ``failed_job_ids`` are jobs whose data cannot be moved."""

    job_ids: tuple[int, ...]
    failed_job_ids: tuple[int, ...] = ()

    @classmethod
    def joined(cls, events: Sequence[Self]) -> Self:
        fields = ("job_ids", "failed_job_ids")
        return super().joined(events).model_copy(update={field: all_of(events, field) for field in fields})
