"""Tells open pages that what they show may have changed: hints, at most one a second for each subject.

A hint says nothing but that. A page asks again for its part, and the services decide again what it is told. What an
event announces is committed; what others do because of it may be a moment later, so each hint is followed by a second
one. Where hints may have been lost, every page gets one: a lost hint costs nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from services.console.policy.subjects import HEARD, subjects_of
from shared.events.base import Event

#: changes that come together are one hint
GATHER_S = 0.1
#: between two hints about one subject
EVERY_S = 1.0
#: pages that are told the same at once are told so far from each other, and all of them within so long
SPREAD_S, MOST_SPREAD_S = 0.001, 0.4
#: subjects of which the time of the last change is kept, for pages that connect again
MOST_KEPT = 200_000


@dataclass(eq=False)
class Listener:
    """One open page; `woken` is set when it should be told."""

    subjects: frozenset[str]
    woken: asyncio.Event = field(default_factory=asyncio.Event)


class _Changed(NamedTuple):
    """When a subject changed: the time of day, for pages that connect again, and that of this process."""

    at: float
    monotonic: float


@dataclass
class _Watched:
    """A subject that somebody looks at."""

    listeners: set[Listener] = field(default_factory=set)
    told_at: float = float("-inf")
    again: bool = False
    timer: asyncio.TimerHandle | None = None


class Hints:
    """Those of one process."""

    def __init__(self, clock: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._monotonic = clock, monotonic
        self._watched: dict[str, _Watched] = {}
        self._changed = OrderedDict[str, _Changed]()
        self._known_since = clock()
        self.is_closed = False

    async def hear(self, event: Event) -> None:
        """Take an event of the bus."""
        self.note(subjects_of(event))

    def note(self, subjects: Iterable[str]) -> None:
        """Remember what has changed, and tell who looks at it."""
        now = _Changed(self._clock(), self._monotonic())
        for subject in subjects:
            self._changed[subject] = now
            self._changed.move_to_end(subject)
            if (watched := self._watched.get(subject)) is not None:
                self._plan(watched, GATHER_S, again=True)
        while len(self._changed) > MOST_KEPT:
            self._known_since = self._changed.popitem(last=False)[1].at

    def interrupted(self) -> None:
        """Tell every page: something may have been missed."""
        self._known_since = self._clock()
        self._changed.clear()
        for watched in self._watched.values():
            self._plan(watched, GATHER_S, again=False)

    def listen(self, subjects: Sequence[str]) -> Listener:
        """Begin to tell a page of its subjects; `leave` ends it."""
        listener = Listener(frozenset(subjects))
        for subject in listener.subjects:
            self._watched.setdefault(subject, _Watched()).listeners.add(listener)
        return listener

    def leave(self, listener: Listener) -> None:
        """Tell it nothing more."""
        for subject in listener.subjects:
            watched = self._watched[subject]
            watched.listeners.discard(listener)
            if not watched.listeners:
                if watched.timer is not None:
                    watched.timer.cancel()
                del self._watched[subject]

    def close(self) -> None:
        """End what every page is told: the process stops."""
        self.is_closed = True
        for watched in self._watched.values():
            for listener in watched.listeners:
                listener.woken.set()

    def changed_since(self, subjects: Iterable[str], at: float) -> int | None:
        """How many of these have changed since then; None where that is not known any more."""
        if at < self._known_since:
            return None
        return sum(subject in self._changed and self._changed[subject].at > at for subject in subjects)

    def told_at(self, subject: str) -> float:
        """When pages were last told to ask again about a subject, by the monotonic clock.

        What was asked before is too old.
        """
        watched, changed = self._watched.get(subject), self._changed.get(subject)
        if watched is not None:
            return watched.told_at
        return changed.monotonic if changed is not None else float("-inf")

    def spread_s(self, listener: Listener) -> float:
        """Over how long those are told who are told the same as this page: they ask again one after the other."""
        n_told = max((len(self._watched[subject].listeners) for subject in listener.subjects), default=1)
        return min(MOST_SPREAD_S, SPREAD_S * (n_told - 1))

    def _plan(self, watched: _Watched, delay_s: float, *, again: bool) -> None:
        watched.again |= again
        if watched.timer is None:
            wait_s = max(delay_s, watched.told_at + EVERY_S - self._monotonic())
            watched.timer = asyncio.get_running_loop().call_later(wait_s, self._tell, watched)

    def _tell(self, watched: _Watched) -> None:
        watched.timer, watched.told_at = None, self._monotonic()
        for listener in watched.listeners:
            listener.woken.set()
        if watched.again:
            watched.again = False
            self._plan(watched, EVERY_S, again=False)


def news_of(hints: Hints) -> list[tuple[type[Event], Callable[[Any], Awaitable[None]]]]:
    """What the console hears."""
    return [(event, hints.hear) for event in HEARD]
