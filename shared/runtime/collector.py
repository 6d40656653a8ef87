"""Python's collector of cycles in a process that serves for long."""

from __future__ import annotations

import gc

#: new containers until the youngest are looked at; then how often until the next older are
THRESHOLDS = (20_000, 20, 20)


def tune_collector() -> None:
    """What the start has made lives as long as the process: it is not looked at again and again.

    A request makes hundreds of containers and hardly a cycle; with Python's own thresholds the collector takes 5 to
    10 % of a busy service's time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
