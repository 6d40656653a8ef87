"""A weighted choice that can be repeated: one uniform number over candidates sorted by name."""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Mapping

#: of each thread: a generator that is given another seed is as good as a new one, at half the price
_OF_THREAD = threading.local()


def uniform_of(seed: int) -> float:
    """The uniform number (0 <= u < 1) of a stored seed."""
    generator: random.Random | None = getattr(_OF_THREAD, "generator", None)
    if generator is None:
        generator = _OF_THREAD.generator = random.Random()
    generator.seed(seed)
    return generator.random()


def weighted_choice(weights: Mapping[str, float], uniform: float) -> str | None:
    """The name whose part of the line [0, sum of weights) holds uniform x sum; None without candidates.

    Weights that are not positive numbers count as nothing; if none is positive, all are equal.
    """
    names = sorted(weights)
    if not names:
        return None
    usable = {name: weights[name] if math.isfinite(weights[name]) and weights[name] > 0 else 0.0 for name in names}
    total = math.fsum(usable.values())
    if total <= 0:
        return names[min(int(uniform * len(names)), len(names) - 1)]
    reached, target = 0.0, uniform * total
    chosen = names[0]
    for name in names:
        if usable[name] <= 0:
            continue
        chosen = name
        reached += usable[name]
        if target < reached:
            break
    return chosen
