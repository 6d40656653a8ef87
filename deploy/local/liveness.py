"""Tells whether a process answers `/livez`.

A process that is stopped, or whose event loop hangs, does not answer although it runs.

Looking never blocks, so one supervisor can look at many processes a few times a second. A question that was asked
stays open until it is answered: a slow answer is an answer.
"""

from __future__ import annotations

import errno
import socket

from deploy.local.ports import LOOPBACK

ASK_EVERY_S = 1.0
SILENT_AFTER_S = 8.0
#: whoever looks was stopped itself if it has not looked for so long: that time is nobody's silence
_LOOKER_STOPPED_S = 2.0
_QUESTION = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


class Liveness:
    """One process that listens on `port`.

    It is silent only if it has answered before: a start may take its time.
    """

    def __init__(self, port: int, *, host: str = LOOPBACK, silent_after_s: float = SILENT_AFTER_S) -> None:
        self._address = (host, port)
        self._silent_after_s = silent_after_s
        self._socket: socket.socket | None = None
        self._asked = False
        self._asked_at = 0.0
        self._looked_at: float | None = None
        self._answered_at: float | None = None

    def started(self) -> None:
        """The process was started anew: nothing is known about it."""
        self._hang_up()
        self._answered_at, self._looked_at = None, None

    def look(self, now: float) -> None:
        """Ask if it is time to, and see whether the last question was answered."""
        if self._looked_at is not None and now - self._looked_at > _LOOKER_STOPPED_S and self._answered_at is not None:
            self._answered_at += now - self._looked_at
        self._looked_at = now
        if self._socket is None and now - self._asked_at >= ASK_EVERY_S:
            self._asked_at = now
            self._call()
        if self._socket is not None and self._heard(self._socket):
            self._answered_at = now

    def silent_s(self, now: float) -> float:
        """For how long it has not answered; 0 if it never did."""
        return 0.0 if self._answered_at is None else now - self._answered_at

    def is_silent(self, now: float) -> bool:
        """Whether it has been silent for too long."""
        return self.silent_s(now) > self._silent_after_s

    def _call(self) -> None:
        self._socket, self._asked = socket.socket(socket.AF_INET, socket.SOCK_STREAM), False
        self._socket.setblocking(False)
        self._socket.connect_ex(self._address)

    def _heard(self, connection: socket.socket) -> bool:
        """Whether the process said something; a connection that failed is asked anew at the next time."""
        try:
            if not self._asked:
                connection.send(_QUESTION)
                self._asked = True
            answer = connection.recv(64)
        except BlockingIOError:
            return False
        except OSError as error:
            if not self._asked and error.errno == errno.ENOTCONN:
                return False
            self._hang_up()
            return False
        self._hang_up()
        return answer.startswith(b"HTTP/1.")

    def _hang_up(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
