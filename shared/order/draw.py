"""A draw by weight among many, of which weights change and members come and go.

Each member is drawn with the probability weight / sum of weights. That is the order of -ln(RAND()) / weight ascending,
found in the logarithm of the number of members instead of a scan. Why not RAND() / weight: of two members with weights
3 and 1 it would put the first before the second in 5 of 6 draws, not in 3 of 4; with many members both agree.

Example: weights 3 and 1 and the random number 0.5: 0.5 * 4 = 2 lies in the first 3, so the first is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class WeightedDraw(Generic[K]):
    """Members with weights above 0, in a binary indexed tree of partial sums."""

    __slots__ = ("_free", "_keys", "_places", "_sums", "_weights")

    def __init__(self) -> None:
        self._keys: list[K | None] = []
        self._places: dict[K, int] = {}
        self._weights: list[float] = []
        self._sums: list[float] = [0.0]
        self._free: list[int] = []

    @classmethod
    def of(cls, weights: Mapping[K, float]) -> WeightedDraw[K]:
        """A draw among these, made at once: many times faster than one after the other."""
        draw = cls()
        draw._keys, draw._weights = list(weights), list(weights.values())
        draw._places = {key: place for place, key in enumerate(weights)}
        sums = draw._sums = [0.0, *draw._weights]
        for number in range(1, len(sums)):
            above = number + (number & -number)
            if above < len(sums):
                sums[above] += sums[number]
        return draw

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, key: K) -> bool:
        return key in self._places

    def put(self, key: K, weight: float) -> None:
        """Add a member, or change its weight."""
        place = self._places.get(key)
        if place is None:
            if self._free:
                place = self._free.pop()
                self._keys[place] = key
            else:
                place = self._append(key)
            self._places[key] = place
        self._set(place, weight)

    def remove(self, key: K) -> None:
        """It is not drawn any more; a member that is not there is left alone."""
        place = self._places.pop(key, None)
        if place is not None:
            self._set(place, 0.0)
            self._keys[place] = None
            self._free.append(place)

    def draw(self, random: Callable[[], float]) -> K | None:
        """Draw a member; None without members, and without a random number where there is one.

        `random` gives numbers that are uniform from 0 to 1: the place in the sum of weights.
        """
        if len(self._places) < 2:
            return next(iter(self._places), None)
        count = len(self._keys)
        left = random() * self._total()
        place, step = 0, 1 << (count.bit_length() - 1)
        while step:
            beyond = place + step
            if beyond <= count and self._sums[beyond] <= left:
                place, left = beyond, left - self._sums[beyond]
            step >>= 1
        # rounding may lead to the end, or to a place that nobody has: then any member will do
        found = self._keys[place] if place < count else None
        return found if found is not None else next(iter(self._places))

    def _append(self, key: K) -> int:
        self._keys.append(key)
        self._weights.append(0.0)
        number = len(self._keys)
        below, total = number - 1, 0.0
        while below > number - (number & -number):
            total += self._sums[below]
            below -= below & -below
        self._sums.append(total)
        return number - 1

    def _set(self, place: int, weight: float) -> None:
        change, number = weight - self._weights[place], place + 1
        self._weights[place] = weight
        if not change:
            return
        while number < len(self._sums):
            self._sums[number] += change
            number += number & -number

    def _total(self) -> float:
        number, total = len(self._keys), 0.0
        while number:
            total += self._sums[number]
            number -= number & -number
        return total
