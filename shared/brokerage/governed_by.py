"""Which runtime parameters govern a check, as they declare it.

So whoever reads a decision knows what to set.

Parameters are COMPONENT.KEY. A value for the task's share (KEY_<gshare>) wins where there is one, and for analysis one
of `anal_jobbroker` over one of `jobbroker`. What only queues, sites or the task say is governed by none.
"""

from __future__ import annotations

from collections.abc import Mapping

from shared.brokerage import limits
from shared.config.declared import declared_in


def _governed() -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for parameter in declared_in(limits):
        for check in parameter.governs:
            found[check] = (*found.get(check, ()), parameter.name)
    return found


GOVERNED_BY: Mapping[str, tuple[str, ...]] = _governed()
