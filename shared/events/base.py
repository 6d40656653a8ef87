"""What every event has.

Class ``TaskDefined`` = routing key ``task.defined.v1`` = handler ``on_task_defined``.
"""

import re
from collections.abc import Hashable, Iterable, Sequence
from datetime import datetime
from typing import Any, ClassVar, Self, TypeVar

from pydantic import BaseModel, ConfigDict

#: ids in one event
IDS_OF_EVENT = 500
_WORDS = re.compile(r"[A-Z][a-z0-9]*")


class Event(BaseModel):
    """A fact about a batch, in the past tense: ids and small facts, never lists of files.

    ``event_id`` and ``occurred_at`` are given by the outbox when the transaction that states the fact commits.

    ``shares_transaction``: a busy consumer handles several in one transaction, merged by ``merge_key`` and ``joined``.
    An event that does not is handled alone: a command, or work as large as its task or chunk is. ``collects_s``: for
    how long a busy consumer waits for more; None: as long as others wait for what the consumer does.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")
    version: ClassVar[int] = 1
    shares_transaction: ClassVar[bool] = False
    collects_s: ClassVar[float | None] = None
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

    @property
    def n_subjects(self) -> int:
        """How many jobs, files or tasks it is about: what is handled together is bounded by their number."""
        return 1

    @property
    def merge_key(self) -> Hashable:
        """Events of one class with the same key become one. By default each stays what it is."""
        return self.event_id

    @classmethod
    def joined(cls, events: Sequence[Self]) -> Self:
        """Make one event of several with the same key, in the order of their ids: by default the newest."""
        return events[-1]


E = TypeVar("E", bound=Event)


def merged(events: Iterable[E]) -> list[E]:
    """Give what a handler is called with for these events of one class.

    The order is that of the tasks, so that all transactions lock them in the same order.
    """
    groups: dict[Hashable, list[E]] = {}
    for event in sorted(events, key=lambda one: one.event_id):
        groups.setdefault(event.merge_key, []).append(event)
    found = [group[0].joined(group) if len(group) > 1 else group[0] for group in groups.values()]
    return sorted(found, key=lambda one: (getattr(one, "task_id", 0), one.event_id))


def all_of(events: Iterable[Event], field: str) -> tuple[Any, ...]:
    """Join a field of ids, each once, in the order of the events."""
    return tuple(dict.fromkeys(one for event in events for one in getattr(event, field)))
