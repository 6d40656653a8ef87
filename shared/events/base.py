"""What every event has.

Class ``TaskDefined`` = routing key ``task.defined.v1`` = handler ``on_task_defined``.
"""

import re
from datetime import datetime
from typing import ClassVar

from pydantic import BaseModel, ConfigDict

#: ids in one event
IDS_OF_EVENT = 500
_WORDS = re.compile(r"[A-Z][a-z0-9]*")


class Event(BaseModel):
    """A fact about a batch, in the past tense: ids and small facts, never lists of files.

    ``event_id`` and ``occurred_at`` are given by the outbox when the transaction that states the fact commits.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")
    version: ClassVar[int] = 1
    event_id: int = 0
    occurred_at: datetime | None = None

    @classmethod
    def words(cls) -> tuple[str, ...]:
        """``JobsFinished`` -> ("jobs", "finished")."""
        return tuple(word.lower() for word in _WORDS.findall(cls.__name__))

    @classmethod
    def routing_key(cls) -> str:
        """``TaskDefined`` -> ``task.defined.v1``; the family first, the rest joined by underscores."""
        family, *rest = cls.words()
        return f"{family}.{'_'.join(rest)}.v{cls.version}"

    @classmethod
    def queue_words(cls) -> str:
        """``TaskDefined`` -> ``task-defined``: the second half of a work queue's name."""
        return "-".join(cls.words())
