"""What held a task: by queue where the queue's statistics lift it, else by kind.

Small, and equal for many tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from shared.brokerage.check import Mask
from shared.brokerage.columns import STATUSES
from shared.brokerage.decision import Decision
from shared.brokerage.lifts import Lift
from shared.brokerage.pipeline import PASSED
from shared.brokerage.room import CAPS, Held, limit_of
from shared.model.queue import QueueStatus

#: what is kept by itself: by queue, by who has a limit; time is in the decision's own `retry_at`
_BY_QUEUE, _BY_LIMIT = frozenset({Lift.QUEUE}), frozenset({Lift.USER, Lift.SHARE})
_KEPT_ELSEWHERE = _BY_QUEUE | _BY_LIMIT | {Lift.TIME, Lift.NOTHING}
STATUS = "status"


@dataclass(frozen=True)
class Causes:
    """`queues`: what held it at which rows.

    `caps`: limits of its user, group or share, by check. `lifts`: all else.

    `parameters`: those that govern one of the checks, as COMPONENT.KEY.
    """

    queues: tuple[tuple[Held, tuple[str, ...]], ...] = ()
    caps: tuple[tuple[str, float], ...] = ()
    lifts: frozenset[Lift] = frozenset()
    parameters: frozenset[str] = frozenset()

    def packed(self) -> dict[str, Any]:
        """The stored form."""
        return {
            "queues": [[*held.packed(), list(labels)] for held, labels in self.queues],
            "caps": [list(cap) for cap in self.caps],
            "lifts": sorted(lift.name for lift in self.lifts),
            "parameters": sorted(self.parameters),
        }

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Causes:
        """The inverse of `packed`; a kind of lift that this version does not know is left out."""
        return cls(
            tuple((Held.of(row[:-1]), tuple(row[-1])) for row in stored.get("queues", ())),
            tuple((name, float(limit)) for name, limit in stored.get("caps", ())),
            frozenset(Lift[name] for name in stored.get("lifts", ()) if name in Lift.__members__),
            frozenset(stored.get("parameters", ())),
        )


def causes_of(decision: Decision, *, vo: str = "", floor: int | None = None, has_input: Mask | None = None) -> Causes:
    """Why a decision chose nothing.

    `vo`: of the task. `floor`: of the queued jobs of production (None: analysis, or a nucleus); `has_input`: the rows
    where the input is at hand, at which assigned jobs are not counted.
    """
    queues: dict[Held, list[str]] = {}
    caps: dict[str, float] = {}
    lifts: set[Lift] = set()
    parameters: set[str] = set()
    capped = any(check.name in CAPS for check in decision.checks.values())
    for code in np.unique(decision.codes).tolist():
        if code == PASSED:
            continue
        check = decision.checks[code]
        lifts.update(check.lifts)
        parameters.update(check.parameters)
        rows = np.flatnonzero(decision.codes == code).tolist()
        if _BY_LIMIT & set(check.lifts):
            caps[check.name] = float(decision.wanted[rows[0]])
        if Lift.QUEUE not in check.lifts:
            continue
        for row in rows:
            if check.name == STATUS and decision.found[row] != STATUSES.index(QueueStatus.STANDBY):
                continue
            local = has_input is not None and bool(has_input[row])
            held = Held(check.name, limit_of(check.name, float(decision.wanted[row])), floor, local, capped, vo)
            queues.setdefault(held, []).append(decision.names[row])
    return Causes(
        tuple((held, tuple(labels)) for held, labels in sorted(queues.items(), key=lambda item: item[0].sorts())),
        tuple(sorted(caps.items())),
        # A grid may also bring a queue or nucleus that no task was brokered to yet.
        frozenset((lifts - _KEPT_ELSEWHERE) | {Lift.GRID}),
        frozenset(parameters),
    )
