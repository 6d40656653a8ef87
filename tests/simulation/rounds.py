"""Which periodic work is due, and in which order it is done when nothing else is to do."""

from __future__ import annotations

import random
from collections.abc import Callable

from shared.runtime.service import Periodic
from tests.simulation.clock import VirtualClock
from tests.simulation.services import Services

#: what only refreshes or forgets: when all is idle it is often left out, which makes waiting cheap
UPKEEP = frozenset(
    {"refresh", "parameters", "publish-statistics", "count-workers", "forget-history", "forget-claims", "ranks",
     "queue-activity", "forget-waits", "retention"}
)  # fmt: skip
UPKEEP_CHANCE = 0.1


class Rounds:
    """`with_deferred`: there are deferred messages to look after."""

    def __init__(
        self, rng: random.Random, services: Services, clock: VirtualClock, note: Callable[[str], None]
    ) -> None:
        self._rng, self._services, self._clock, self._note = rng, services, clock, note
        self.with_deferred = False
        self._due_at_s: dict[tuple[str, str, str], float] = {}
        self._round: list[tuple[str, Periodic | None]] = []

    def begin(self, *, upkeep: bool = False) -> None:
        """Everything that is due once, in any order; and the deferred messages of every service."""
        due = [
            (name, one)
            for name, one in self._due()
            if upkeep or one.name not in UPKEEP or self._rng.random() < UPKEEP_CHANCE
        ]
        self._round = [*due, *self._deferred()]
        self._rng.shuffle(self._round)

    @property
    def under_way(self) -> bool:
        return bool(self._round)

    async def go_on(self) -> None:
        """The next piece of the round."""
        await self._run(*self._round.pop())

    async def one(self) -> None:
        """Any piece that is due."""
        due: list[tuple[str, Periodic | None]] = [*self._due()]
        due += self._deferred()
        if due:
            await self._run(*self._rng.choice(due))

    def _deferred(self) -> list[tuple[str, Periodic | None]]:
        return [(name, None) for name in sorted(self._services.dispatchers) if self.with_deferred]

    def _due(self) -> list[tuple[str, Periodic]]:
        now = self._clock.elapsed_s
        return [
            (name, one)
            for name, one in self._services.periodics()
            if self._due_at_s.get((name, one.name, one.partition), 0.0) <= now
        ]

    async def _run(self, name: str, periodic: Periodic | None) -> None:
        self._note(f"{name}: {periodic.name if periodic else 'deferred messages'}")
        if periodic is None:
            await self._services.dispatchers[name].deliver_due()
            return
        self._due_at_s[name, periodic.name, periodic.partition] = self._clock.elapsed_s + periodic.every_s
        await self._services.run_periodic(name, periodic)
