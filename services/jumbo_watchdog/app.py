"""The composition root of the jumbo watchdog."""

from __future__ import annotations

from services.jumbo_watchdog.handlers import JumboWatchdog
from shared.config.parameters import Parameters
from shared.events import ConfigChanged
from shared.runtime.service import Context, Periodic, Service
from shared.snapshot import KnownGrid

#: how often the turn is tried; the real period is the runtime parameter PERIOD_S of component jumbo_dog
TICK_S = 30.0


def build(context: Context) -> Service:
    watchdog = JumboWatchdog(context.database, Parameters(), KnownGrid(context.cache))
    return Service(
        name="jumbo-watchdog",
        news=[(ConfigChanged, watchdog.on_config_changed)],
        periodic=[Periodic("switch", TICK_S, watchdog.switch)],
    )
