"""How much is waiting in the outbox, and for how long: the first number to look at when nothing moves."""

from __future__ import annotations

import logging
import time

from shared.db.database import Database
from shared.db.turns import take_turn
from shared.messaging.metrics import MessagingMetrics

log = logging.getLogger(__name__)

MEASURE_EVERY_S = 5.0
#: from this age on, the oldest row is told in the log, once a minute by one of all processes
OLD_S, TOLD_EVERY_S = 60.0, 60.0

# Counting stops at 100 000: after an outage the outbox may be long, and more than that is "very long" anyway.
_SIZE = """
SELECT (SELECT count(*) FROM (SELECT 1 FROM outbox LIMIT 100000) AS counted) AS rows,
       coalesce((SELECT extract(epoch FROM orrery_now() - created_at)::double precision
                 FROM outbox ORDER BY event_id LIMIT 1), 0.0) AS age_s
"""


class OutboxGauge:
    """Sets the two gauges, at most once in a few seconds, and tells of rows that are older than a minute."""

    def __init__(self, database: Database, metrics: MessagingMetrics) -> None:
        self._database = database
        self._metrics = metrics
        self._measured_at = 0.0

    async def measure(self) -> None:
        if time.monotonic() - self._measured_at < MEASURE_EVERY_S:
            return
        self._measured_at = time.monotonic()
        async with self._database.read() as connection:
            row = await connection.fetchrow(_SIZE)
            assert row is not None
            tells = row["age_s"] > OLD_S and await take_turn(connection, "old outbox", TOLD_EVERY_S) is not None
        self._metrics.outbox_rows.set(row["rows"])
        self._metrics.outbox_age.set(row["age_s"])
        if tells:
            log.warning(
                "the outbox has %d events, the oldest for %.0f s: is RabbitMQ away or full?", row["rows"], row["age_s"]
            )
