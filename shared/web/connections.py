"""How many connections a process keeps from one address, and how long without a whole request.

A connection costs a file and some memory; what it holds up costs more. So whole requests are not bounded here, whatever
comes at once: thousands of pilots stand behind one address. Bounded are connections, and requests that arrive slowly.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from shared.auth.addresses import Proxies, counted_as
from shared.web.file_limit import raise_file_limit

#: files of a process that are none of callers: sessions of the database, logs, connections to services
OWN_FILES = 500
#: of all connections that a process can have, those from one address leave some to others
PART_OF_ONE = 0.8
NO_PROXIES = Proxies()


@dataclass(frozen=True)
class Pace:
    """How fast requests have to come, and answers have to be taken.

    A request begins with its first byte, which comes within `silent_s` of the connection: a machine that runs thousands
    of pilots connects long before it sends, and who is silent holds a file alone. A head is whole after `begin_s`. A
    body may take as long, and a second more for so many bytes; the bytes of an answer that are on their way get fewer
    at that rate. What has begun and is not whole after `slow_s` counts as slow.
    """

    silent_s: float = 60.0
    slow_s: float = 5.0
    begin_s: float = 10.0
    bytes_per_s: int = 4096


USUAL_PACE = Pace()


class Watched(Protocol):
    """A connection, as its process has it."""

    @property
    def transport(self) -> asyncio.Transport | None: ...

    def cut(self, status: int, text: str) -> None:
        """Say why, if nothing was said, and close."""

    def waits_for_us(self) -> bool:
        """Whether we do not read at the moment what comes."""


class Connections:
    """Those of one process.

    When there are too many, the one that has been without a request for longest is closed. `most_slow`: slow requests
    from one address. Proxies, which speak for many, have no bounds of their own; they connect before they send, and a
    busy one may send much later: its time counts from the first byte.
    """

    def __init__(
        self,
        *,
        most_of_one: int = 12_000,
        most_slow: int = 100,
        proxies: Proxies = NO_PROXIES,
        most: int | None = None,
        count: Callable[[str], None] = lambda why: None,
    ) -> None:
        self.most = most or max(100, raise_file_limit() - OWN_FILES)
        self.most_of_one = min(most_of_one, max(1, int(PART_OF_ONE * self.most)))
        self.most_slow = most_slow
        self.count = count
        self._proxies = proxies
        self._n_all = 0
        self._n_of: Counter[str] = Counter()
        self._n_slow: Counter[str] = Counter()
        self._waiting: dict[Watch, None] = {}
        self._waiting_of: dict[str, dict[Watch, None]] = {}

    def opened(self, connection: Watched, host: str, pace: Pace = USUAL_PACE) -> Watch:
        """Count a connection, and watch its first request."""
        address = "" if self._proxies.trusts(host) else counted_as(host)
        watch = Watch(self, connection, address, pace)
        self._n_all += 1
        if address:
            self._n_of[address] += 1
            watch.wait()
        else:
            watch.idle()
        if address and self._n_of[address] > self.most_of_one:
            self._close_longest(self._waiting_of[address], "address")
        elif self._n_all > self.most:
            self._close_longest(self._waiting, "all")
        return watch

    def _close_longest(self, waiting: dict[Watch, None], why: str) -> None:
        longest = next(iter(waiting))
        self.count(why)
        longest.shut()

    def note_waiting(self, watch: Watch) -> None:
        """It has no whole request."""
        self._waiting[watch] = None
        self._waiting_of.setdefault(watch.address, {})[watch] = None

    def note_whole(self, watch: Watch) -> None:
        """It has one, or is gone."""
        self._waiting.pop(watch, None)
        if (of_address := self._waiting_of.get(watch.address)) is not None:
            of_address.pop(watch, None)
            if not of_address:
                del self._waiting_of[watch.address]

    def slow(self, address: str) -> bool:
        """Whether there is a place for one more slow request from this address; it is taken."""
        if address and self._n_slow[address] >= self.most_slow:
            self.count("slow")
            return False
        self._n_slow[address] += 1
        return True

    def not_slow(self, address: str) -> None:
        """One of them is whole, or gone."""
        _count_down(self._n_slow, address)

    def gone(self, address: str) -> None:
        """A connection was closed."""
        self._n_all -= 1
        if address:
            _count_down(self._n_of, address)

    @property
    def n_open(self) -> int:
        return self._n_all


def _count_down(counts: Counter[str], name: str) -> None:
    counts[name] -= 1
    if counts[name] <= 0:
        del counts[name]


class Watch:
    """The times of one connection: until its request is whole, and while nobody takes its answer."""

    __slots__ = ("_answer", "_begun_at", "_connection", "_in_body", "_is_silent", "_is_slow", "_kept", "_loop",
                 "_n_bytes", "_n_left", "_pace", "_request", "address")  # fmt: skip

    def __init__(self, kept: Connections, connection: Watched, address: str, pace: Pace) -> None:
        self._kept: Connections | None = kept
        self._connection = connection
        self.address = address
        self._pace = pace
        self._loop = asyncio.get_running_loop()
        self._request: asyncio.TimerHandle | None = None
        self._answer: asyncio.TimerHandle | None = None
        self._in_body = self._is_slow = False
        self._is_silent = True
        self._begun_at, self._n_bytes, self._n_left = 0.0, 0, 0

    def wait(self) -> None:
        """A request is awaited, or has begun; calling it again changes nothing."""
        if self._request is None and self._kept is not None:
            self._begun_at, self._n_bytes, self._in_body = self._loop.time(), 0, False
            self._kept.note_waiting(self)
            self._look_in(min(self._pace.slow_s, self._pace.begin_s))

    def idle(self) -> None:
        """Nothing of the next request has come: the connection may be closed when there are too many."""
        if self._kept is not None and self._request is None:
            self._kept.note_waiting(self)

    def in_body(self) -> None:
        """The head is whole; what comes now buys time."""
        self._in_body, self._n_bytes, self._begun_at = True, 0, self._loop.time()

    def received(self, n_bytes: int) -> None:
        """Bytes have come; the first of a connection begin its first request."""
        if self._is_silent:
            self._is_silent, self._begun_at = False, self._loop.time()
        self._n_bytes += n_bytes

    def whole(self) -> None:
        """The request is whole."""
        if self._request is not None:
            self._request.cancel()
            self._request = None
        if self._kept is not None:
            if self._is_slow:
                self._is_slow = False
                self._kept.not_slow(self.address)
            self._kept.note_whole(self)

    def answer_waits(self) -> None:
        """More of an answer is to be sent than the caller takes at once."""
        if self._answer is None:
            self._n_left = self._unsent()
            self._answer = self._loop.call_later(self._pace.begin_s, self._look_at_answer)

    def answer_goes_on(self) -> None:
        if self._answer is not None:
            self._answer.cancel()
            self._answer = None

    def gone(self) -> None:
        """The connection was closed."""
        self.whole()
        self.answer_goes_on()
        if self._kept is not None:
            self._kept.gone(self.address)
            self._kept = None

    def shut(self) -> None:
        """Close it now, without a word."""
        if self._kept is not None:
            self._kept.note_whole(self)
        if self._connection.transport is not None:
            self._connection.transport.abort()

    def _look_in(self, seconds: float) -> None:
        self._request = self._loop.call_later(seconds, self._is_due)

    def _is_due(self) -> None:
        # what has come while this process was busy is read first: loops may call timers before they read
        self._request = self._loop.call_later(0.05, self._look_at_request)

    def _look_at_request(self) -> None:
        if self._kept is None:
            return
        pace, waited_s = self._pace, self._loop.time() - self._begun_at
        if self._connection.waits_for_us():
            self._begun_at = self._loop.time()
            self._n_bytes = 0
            self._look_in(pace.slow_s)
            return
        allowed_s = pace.begin_s + (self._n_bytes / pace.bytes_per_s if self._in_body else 0.0)
        if self._is_silent:
            allowed_s = pace.silent_s
        if waited_s >= allowed_s:
            self._kept.count("late")
            rate = f"; a body has to come with {pace.bytes_per_s} bytes/s" if self._in_body else ""
            self._end(f"the request was not complete after {allowed_s:.1f} s{rate}")
            return
        if waited_s >= pace.slow_s and not (self._is_slow or self._is_silent):
            if not self._kept.slow(self.address):
                self._end(f"more than {self._kept.most_slow} requests from {self.address} arrive slowly")
                return
            self._is_slow = True
        due_s = allowed_s if self._is_slow or self._is_silent else pace.slow_s
        self._look_in(min(pace.slow_s, max(0.01, due_s - waited_s)))

    def _end(self, text: str) -> None:
        self.whole()
        self._connection.cut(408, text)

    def _look_at_answer(self) -> None:
        """Whether enough of the answer was taken since the last look."""
        self._answer = None
        left = self._unsent()
        if self._n_left - left >= self._pace.begin_s * self._pace.bytes_per_s or not left:
            if left:
                self.answer_waits()
            return
        if self._kept is not None:
            self._kept.count("answer")
        if self._connection.transport is not None:
            self._connection.transport.abort()

    def _unsent(self) -> int:
        transport = self._connection.transport
        return transport.get_write_buffer_size() if transport is not None else 0
