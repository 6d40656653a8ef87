"""Chooses the queue of the next pilot, as pilot factories do: by what waits there and by its size."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

#: states of queues that pilots are sent to
OPEN_STATES = frozenset({"online", "brokeroff", "test", "standby", "paused"})


@dataclass(frozen=True)
class QueueSite:
    """A queue as pilots see it: its weight (pledged cores) and what a pilot offers there."""

    name: str
    weight: float
    offer: Mapping[str, Any]


def queue_from_record(record: Mapping[str, Any]) -> QueueSite | None:
    """One line of `grid/queues`; None for a queue that gets no pilots."""
    data = record.get("data") or {}
    name, status = record.get("queue"), record.get("status") or data.get("status")
    if not name or status not in OPEN_STATES:
        return None
    label = {"production": "managed", "analysis": "user"}.get(str(record.get("type") or data.get("type")), "unified")
    offer = {
        "prod_source_label": label,
        "memory": int(data.get("maxrss") or 0),
        "disk_space": int(data.get("maxwdir") or 0),
        "computing_element": f"ce.{str(name).lower()}",
    }
    return QueueSite(str(name), max(1.0, float(data.get("pledgedcpu") or 0)), offer)


class Allocation:
    """Demand is the number of activated jobs of a queue; pilots on their way there are subtracted from it.

    Every queue is visited once at first, so that the system knows of pilots everywhere; later a pilot goes where jobs
    wait, or, where nothing waits at all, now and then to a queue drawn by its weight.
    """

    def __init__(self, queues: Sequence[QueueSite], rng: random.Random) -> None:
        self.queues = {one.name: one for one in sorted(queues, key=lambda one: one.name)}
        self._rng = rng
        self._unvisited = sorted(self.queues, key=lambda name: (-self.queues[name].weight, name), reverse=True)
        self._demand: dict[str, int] = {}
        self._asking: dict[str, int] = {}

    def set_demand(self, activated: Mapping[str, int]) -> None:
        """What waits at each queue, as last seen."""
        self._demand = {name: n for name, n in activated.items() if name in self.queues and n > 0}

    def next_queue(self, *, exploring: bool) -> QueueSite | None:
        """The queue for the next pilot; None when nothing waits and it is not time to explore."""
        if self._unvisited:
            return self._send(self._unvisited.pop())
        names = [name for name in sorted(self._demand) if self._demand[name] > self._asking.get(name, 0)]
        if names:
            weights = [float(self._demand[name] - self._asking.get(name, 0)) for name in names]
            return self._send(self._rng.choices(names, weights)[0])
        if exploring and self.queues:
            every = list(self.queues)
            return self._send(self._rng.choices(every, [self.queues[name].weight for name in every])[0])
        return None

    def _send(self, name: str) -> QueueSite:
        self._asking[name] = self._asking.get(name, 0) + 1
        return self.queues[name]

    def asked(self, name: str, *, got_job: bool) -> None:
        """A pilot sent there has asked for its first job."""
        self._asking[name] = max(0, self._asking.get(name, 0) - 1)
        if got_job:
            self._demand[name] = max(0, self._demand.get(name, 0) - 1)
        else:
            self._demand.pop(name, None)
