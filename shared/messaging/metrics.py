"""What the bus tells Prometheus.

Labels are consumers and routing keys; there are a few dozen of them, never ids.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
TOGETHER = (1, 2, 5, 10, 20, 50, 100, 200)


class MessagingMetrics:
    """One per process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.messages = Counter(
            "orrery_messages",
            "Deliveries by what became of them (handled, duplicate, deferred, parked, undecodable)",
            ["consumer", "outcome"],
            registry=registry,
        )
        self.handler_seconds = Histogram(
            "orrery_handler_seconds",
            "Time of a handler's whole transaction",
            ["consumer"],
            buckets=SECONDS,
            registry=registry,
        )
        self.events_together = Histogram(
            "orrery_events_together",
            "Events handled in one transaction",
            ["consumer"],
            buckets=TOGETHER,
            registry=registry,
        )
        self.tried_alone = Counter(
            "orrery_events_tried_alone",
            "Transactions of several events that failed, so that each event was tried alone, by cause",
            ["consumer", "cause"],
            registry=registry,
        )
        self.database_retries = Counter(
            "orrery_handler_database_retries",
            "Tries of a handler that ended with an error of PostgreSQL",
            ["consumer"],
            registry=registry,
        )
        self.row_waits = Counter(
            "orrery_handler_row_waits",
            "Messages put off because another transaction held a row that their handler needs",
            ["consumer"],
            registry=registry,
        )
        self.news = Counter("orrery_news", "News heard, by outcome", ["consumer", "outcome"], registry=registry)
        self.published = Counter("orrery_outbox_published", "Outbox rows confirmed by the bus", registry=registry)
        self.publish_failures = Counter(
            "orrery_outbox_publish_failures",
            "Outbox rows not taken by the bus, by cause (returned, refused, unanswered, connection)",
            ["cause"],
            registry=registry,
        )
        self.outbox_rows = Gauge("orrery_outbox_rows", "Rows waiting in the outbox", registry=registry)
        self.outbox_age = Gauge("orrery_outbox_age_seconds", "Age of the oldest outbox row", registry=registry)
        self.consumers_missing = Gauge(
            "orrery_consumers_missing", "Queues of this process without an attached consumer", registry=registry
        )
