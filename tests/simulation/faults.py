"""What may go wrong in one run, drawn from its seed; nothing more goes wrong after its faulty steps."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from shared.events import BY_ROUTING_KEY
from shared.messaging.schedule import Choice, Handling
from shared.messaging.subscription import Delivery
from tests.simulation.clock import VirtualClock

LONGEST_DELAY_S = 7200.0


@dataclass(frozen=True)
class Faults:
    """Probabilities per occasion."""

    duplicate: float = 0.0
    drop: float = 0.0
    delay: float = 0.0
    die_before_commit: float = 0.0
    die_after_commit: float = 0.0
    restart_service: float = 0.0
    forget_bus: float = 0.0
    lose_reply: float = 0.0
    pilot_vanishes: float = 0.0
    payload_fails: float = 0.0
    report_twice: float = 0.0
    stale_report: float = 0.0
    leap: float = 0.0
    command: float = 0.0
    change_input: float = 0.0
    range_fails: float = 0.0
    ends_early: float = 0.0

    @classmethod
    def draw(cls, rng: random.Random, *, busy: bool, with_ranges: bool) -> "Faults":
        """Each run has some faults often, some seldom, some not at all; `busy`: commands and other input always.

        `with_ranges`: ranges of events fail as well, and jobs end before they asked for all of them.
        """

        def rate(highest: float) -> float:
            return rng.choice((0.0, highest / 5, highest))

        return cls(
            duplicate=rate(0.2),
            drop=rate(0.05),
            delay=rate(0.05),
            die_before_commit=rate(0.03),
            die_after_commit=rate(0.03),
            restart_service=rate(0.02),
            forget_bus=rate(0.02),
            lose_reply=rate(0.15),
            pilot_vanishes=rate(0.05),
            payload_fails=rate(0.15),
            report_twice=rate(0.2),
            stale_report=rate(0.1),
            leap=rate(0.03),
            command=max(rate(0.03), 0.02 * busy),
            change_input=max(rate(0.03), 0.02 * busy),
            range_fails=rate(0.1) if with_ranges else 0.0,
            ends_early=rate(0.3) if with_ranges else 0.0,
        )


#: how many more messages are handled in one transaction with one, at most, drawn each time
GROUPS = (0, 0, 1, 3, 20)


class SeededSchedule:
    """Any waiting message may be next, older ones somewhat sooner; some come hours late, behind newer ones.

    Others to the same consumer are handled with it, any of those that have arrived and in any order.
    """

    def __init__(self, rng: random.Random, clock: VirtualClock) -> None:
        self._rng, self._clock = rng, clock
        self._late: dict[int, tuple[Delivery, float]] = {}  # by identity: the same message may be waiting twice
        self.faults = Faults()

    def ready(self, waiting: Sequence[Delivery]) -> list[int]:
        """Which of the waiting messages have arrived."""
        now = self._clock.elapsed_s
        for key in [key for key, (_, until) in self._late.items() if until <= now]:
            del self._late[key]
        return [index for index, delivery in enumerate(waiting) if id(delivery) not in self._late]

    def is_late_for(self, consumers: str) -> bool:
        """Whether a message for consumers whose names begin so is hours late."""
        return any(delivery.consumer.startswith(consumers) for delivery, _ in self._late.values())

    def choose(self, waiting: Sequence[Delivery]) -> Choice | None:
        ready = self.ready(waiting)
        if not ready:
            return None
        index = ready[min(self._rng.randrange(len(ready)), self._rng.randrange(len(ready)))]
        chance = self._rng.random()
        if chance < self.faults.drop:
            return Choice(index, Handling.DROP)
        if chance < self.faults.drop + self.faults.duplicate:
            return Choice(index, Handling.DUPLICATE, self._others(waiting, index, ready))
        if chance < self.faults.drop + self.faults.duplicate + self.faults.delay:
            delivery = waiting[index]
            self._late[id(delivery)] = (delivery, self._clock.elapsed_s + self._rng.uniform(1.0, LONGEST_DELAY_S))
            return None
        return Choice(index, Handling.DELIVER, self._others(waiting, index, ready))

    def _others(self, waiting: Sequence[Delivery], index: int, ready: Sequence[int]) -> tuple[int, ...]:
        consumer, routing_key = waiting[index].consumer, waiting[index].routing_key
        most = self._rng.choice(GROUPS) if BY_ROUTING_KEY[routing_key].event.shares_transaction else 0
        alike = [one for one in ready if one != index and waiting[one].consumer == consumer]
        return tuple(self._rng.sample(alike, min(most, len(alike))))

    def forget(self) -> None:
        """The bus starts anew and with it every wait."""
        self._late.clear()
