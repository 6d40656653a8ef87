"""Events that wait in the outbox for more than a minute are told once a minute, by one of all processes."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from shared.db.turns import Turn
from shared.messaging import outbox
from shared.messaging.metrics import MessagingMetrics


class OldOutbox:
    """A database whose outbox has three rows; `last_turn_s`: when somebody told of them last."""

    def __init__(self) -> None:
        self.age_s = self.now_s = self.last_turn_s = 0.0

    @asynccontextmanager
    async def read(self) -> AsyncIterator[Any]:
        yield self

    async def fetchrow(self, statement: str) -> dict[str, float]:
        return {"rows": 3, "age_s": self.age_s}

    async def take_turn(self, connection: Any, name: str, period_s: float) -> Turn | None:
        assert connection is self and name == "old outbox"
        if self.now_s - self.last_turn_s < period_s:
            return None
        self.last_turn_s = self.now_s
        return Turn(None)


async def test_a_row_older_than_a_minute_is_told_once_a_minute_by_one_of_two_processes(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    database, told = OldOutbox(), []
    monkeypatch.setattr(outbox.time, "monotonic", lambda: database.now_s)
    monkeypatch.setattr(outbox, "take_turn", database.take_turn)
    gauges = [outbox.OutboxGauge(database, MessagingMetrics(CollectorRegistry())) for _ in range(2)]  # type: ignore[arg-type]
    caplog.set_level(logging.WARNING)
    for database.age_s, database.now_s in ((60.0, 1000.0), (61.0, 1010.0), (71.0, 1020.0), (121.0, 1070.0)):
        caplog.clear()
        for gauge in gauges:
            await gauge.measure()
        told.append([record.getMessage() for record in caplog.records])
    sentence = "the outbox has 3 events, the oldest for {} s: is RabbitMQ away or full?"
    assert told == [[], [sentence.format(61)], [], [sentence.format(121)]]
