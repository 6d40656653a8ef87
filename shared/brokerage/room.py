"""Whether what held a task at a queue still holds, and how many jobs have room, by statistics alone.

It is asked whenever statistics change, so it looks at one row and a few numbers. It may say yes where the decision will
say no for another reason; it must not say no where the decision would say yes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from shared.brokerage.weights import running_number
from shared.brokerage.world import World

NONE = 0.0
#: an idle queue counts as one with so many running jobs of analysis
MIN_RUNNING = 20
#: transferring jobs of a queue that states no limit of its own
DEFAULT_TRANSFERRING_LIMIT = 2000
#: checks that cap queued jobs; without any of them so many jobs are placed before anybody looks again
CAPS = frozenset({"queued", "long_queue"})
UNCAPPED = 20.0


@dataclass(frozen=True)
class Held:
    """A check that held a task at a queue.

    `limit`: what was wanted, where it does not follow from the statistics.

    `floor`: of the queued jobs of production; None: analysis. `local`: the input is at hand. `capped`: the policy has a
    cap on queued jobs at all. `vo`: of the task, whose jobs alone are compared.
    """

    check: str
    limit: float = 0.0
    floor: int | None = None
    local: bool = False
    capped: bool = True
    vo: str = ""

    def packed(self) -> list[Any]:
        return [self.check, self.limit, self.floor, self.local, self.capped, self.vo]

    @classmethod
    def of(cls, stored: Sequence[Any]) -> Held:
        """The inverse."""
        check, limit, floor, local, capped, vo = stored
        return cls(check, float(limit), floor, local, capped, vo)

    def sorts(self) -> tuple[str, float, int, bool, bool, str]:
        """A key that compares."""
        return self.check, self.limit, -1 if self.floor is None else self.floor, self.local, self.capped, self.vo


def _cap(world: World, row: int, held: Held) -> float:
    """Jobs until the cap on queued jobs: 2 x running, at least the floor; for analysis 2 x max(20, running).

    Example: 100 queued, 30 running, a floor of 20: 2 x 30 - 100 is below nothing, there is no room.
    """
    load = world.load
    queued = float(load.queued[row])
    if held.floor is None:
        return 2.0 * max(MIN_RUNNING, float(load.running[row])) - queued
    if held.local:
        queued -= float(load["assigned"][row])
    return max(float(held.floor), 2 * float(running_number(world)[row])) - queued


def _waiting_cap(world: World, row: int, held: Held) -> float:
    waiting = float(world.load["activated"][row] + world.load["starting"][row])
    return max(float(held.floor or 0), 2 * float(running_number(world)[row])) - waiting


def _transferring(world: World, row: int, held: Held) -> float:
    own = float(world.columns.transferring_limit[row])
    limit = own if own > 0 else DEFAULT_TRANSFERRING_LIMIT
    return max(limit, 2 * float(world.load.running[row])) - float(world.load["transferring"][row])


def _disk_io(world: World, row: int, held: Held) -> float:
    return NONE - 1 if world.load.disk_io_kb_s[row] > held.limit else NONE


def _slots(world: World, row: int, held: Held) -> float:
    return NONE if world.load.n_slots[row] > 0 else NONE - 1


_LEFT: Mapping[str, Callable[[World, int, Held], float]] = {
    "queued": _cap,
    "long_queue": _cap,
    "activated_and_starting": _waiting_cap,
    "transferring": _transferring,
    "disk_io": _disk_io,
    "status": _slots,
}
#: the others' limits follow from the statistics
_KEEPS_LIMIT = frozenset({"disk_io", "pilots", "inactive"})


def limit_of(check: str, wanted: float) -> float:
    """The limit to keep: none where it is computed again, so that the causes of many tasks are equal."""
    return wanted if check in _KEEPS_LIMIT else 0.0


def room(world: World, row: int, held: Held, now: datetime) -> float:
    """Jobs that may be placed at a row before the check or the cap on queued jobs holds again.

    0: none. They are of the VO that was held.
    """
    world = world.of_vo(held.vo)
    silence = {"pilots": world.load.last_pilot_s, "inactive": world.load.last_job_start_s}.get(held.check)
    if silence is not None:
        is_silent = not now.timestamp() - float(silence[row]) <= held.limit
        if is_silent and not (held.check == "inactive" and world.load["activated"][row] == 0):
            return NONE
    left = _LEFT.get(held.check)
    if left is not None and left(world, row, held) < 0:
        return NONE
    # At the limit itself a check passes: there is room for one more decision.
    return max(NONE, _cap(world, row, held) + 1) if held.capped else UNCAPPED
