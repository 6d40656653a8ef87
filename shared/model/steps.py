"""Long work cut into steps: who runs it decides what happens in between.

A generator that yields between its steps and returns its result. A server gives the event loop back there
(`shared.web.slices.in_slices`); a program that does nothing else runs it through (`at_once`).
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar, cast

T = TypeVar("T")
Steps = Generator[None, None, T]


def at_once(steps: Steps[T]) -> T:
    """The result, without a pause."""
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            return cast(T, ended.value)
