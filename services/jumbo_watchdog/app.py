"""The composition root of the jumbo watchdog."""

from __future__ import annotations

from services.jumbo_watchdog.handlers import JumboWatchdog
from shared.config.parameters import Parameters
from shared.runtime.service import Context, Periodic, Service, with_parameters
from shared.snapshot import KnownGrid

#: how often the turn is tried; the real period is the runtime parameter PERIOD_S of component jumbo_dog
TICK_S = 30.0


def build(context: Context) -> Service:
    parameters = Parameters()
    watchdog = JumboWatchdog(parameters, KnownGrid(context.cache))
    service = Service(name="jumbo-watchdog", periodic=[Periodic("switch", TICK_S, watchdog.switch)])
    return with_parameters(parameters, context.database, service)
