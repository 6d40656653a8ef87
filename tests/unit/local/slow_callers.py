"""Connections that hold up whoever waits for them: headers without an end, bodies by the byte, answers not taken."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Sequence

BODY = b"POST %s HTTP/1.1\r\nHost: g\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
HEADERS = b"POST %s HTTP/1.1\r\nHost: g\r\n"
ANSWER = b"GET %s HTTP/1.1\r\nHost: g\r\n\r\n"


class SlowCaller:
    """One connection from an address, which sends a byte now and then and takes nothing but the end."""

    def __init__(self, sock: socket.socket, more: bytes, takes: int) -> None:
        self._sock = sock
        self._more = more
        self._takes = takes
        self.was_cut = asyncio.Event()
        self.told = b""

    async def go_on(self, every_s: float) -> None:
        """Until the other side has closed."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(every_s):
                        got = await loop.sock_recv(self._sock, self._takes)
                        self.told += got
                        if not got:
                            break
                if self._more:
                    await loop.sock_sendall(self._sock, self._more)
                elif self._takes == 1:
                    await asyncio.sleep(every_s)  # the point of the attack is time
        except OSError:
            pass
        self.was_cut.set()


@contextlib.asynccontextmanager
async def slow_callers(
    port: int, addresses: Sequence[str], number: int, begin: bytes, more: bytes, every_s: float = 0.5
) -> AsyncIterator[list[SlowCaller]]:
    """So many at once, from these addresses in turn."""
    loop, callers = asyncio.get_running_loop(), []
    with contextlib.ExitStack() as stack:
        for index in range(number):
            sock = stack.enter_context(socket.socket())
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.bind((addresses[index % len(addresses)], 0))
            sock.setblocking(False)
            await loop.sock_connect(sock, ("127.0.0.1", port))
            await loop.sock_sendall(sock, begin)
            callers.append(SlowCaller(sock, more, 1 if begin.startswith(b"GET") else 4096))
        going_on = [asyncio.create_task(one.go_on(every_s)) for one in callers]
        try:
            yield callers
        finally:
            for task in going_on:
                task.cancel()
            await asyncio.gather(*going_on, return_exceptions=True)
