"""The issuer of the tests in a thread of its own, beside tests that are not asynchronous."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.unit.auth.issuer_of_tests import Issuer


@contextmanager
def running_issuer() -> Iterator[Issuer]:
    """It answers as long as the block runs."""
    loop, issuer = asyncio.new_event_loop(), Issuer()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(issuer.__aenter__(), loop).result(20)
        yield issuer
        asyncio.run_coroutine_threadsafe(issuer.__aexit__(None, None, None), loop).result(20)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
