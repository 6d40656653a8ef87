"""Worlds drawn from one number.

Hypothesis keeps a record of every choice that it makes. For a world of a hundred fields that takes longer than the
decision under test: Hypothesis draws the number, and all fields follow from it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from hypothesis import strategies as st

#: more bits than these Hypothesis does not draw evenly: it prefers small numbers
SEED_BITS = 24
T = TypeVar("T")
Draw = Callable[[random.Random], T]
#: of so many integers one is the lowest that is allowed, and one the highest
BOUNDS = 8


def sampled_from(values: Iterable[T]) -> Draw[T]:
    choices = list(values)
    return lambda rng: rng.choice(choices)


def just(value: T) -> Draw[T]:
    return lambda rng: value


def booleans() -> Draw[bool]:
    return sampled_from((False, True))


def integers(lowest: int, highest: int) -> Draw[int]:
    """Both included, and drawn more often than the others."""

    def draw(rng: random.Random) -> int:
        return {0: lowest, 1: highest}.get(rng.randrange(BOUNDS), rng.randint(lowest, highest))

    return draw


def builds(make: Callable[..., T], *fields: Draw[Any], **named: Draw[Any]) -> Draw[T]:
    return lambda rng: make(*(field(rng) for field in fields), **{name: field(rng) for name, field in named.items()})


def fixed_dictionaries(fields: Mapping[str, Draw[Any]]) -> Draw[dict[str, Any]]:
    return builds(dict, **fields)


def tuples(*fields: Draw[Any]) -> Draw[tuple[Any, ...]]:
    return lambda rng: tuple(field(rng) for field in fields)


def lists(
    element: Draw[T], *, min_size: int = 0, max_size: int, unique_by: Callable[[T], Any] | None = None
) -> Draw[list[T]]:
    """Of elements with the same key the first is kept."""

    def draw(rng: random.Random) -> list[T]:
        size = rng.randint(min_size, max_size)
        found: dict[Any, T] = {}
        while len(found) < size:
            one = element(rng)
            found.setdefault(unique_by(one) if unique_by else len(found), one)
        return list(found.values())

    return draw


def from_one_number(*fields: Draw[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    """What a test is given: a failure names the number's world."""
    draw = tuples(*fields)
    return st.integers(0, 2**SEED_BITS - 1).map(lambda number: draw(random.Random(number)))
