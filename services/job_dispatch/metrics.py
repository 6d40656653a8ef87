"""What the dispatcher counts."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class DispatchMetrics:
    """Labels are few and fixed: never a queue, job or task."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.acquires = Counter(
            "orrery_acquires",
            "Acquire requests, by answer (job, none, refused, unavailable)",
            ["answer"],
            registry=registry,
        )
        self.no_match = Counter(
            "orrery_acquires_without_a_job",
            "Acquire requests that got no job, by what would have to change first",
            ["why"],
            registry=registry,
        )
        self.claims = Counter(
            "orrery_claims", "Claims, by outcome (taken, repeated, lost)", ["outcome"], registry=registry
        )
        self.claim_batch = Histogram(
            "orrery_claim_batch", "Requests in one claim", buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256), registry=registry
        )
        self.requirements = Counter(
            "orrery_requirements_at_dispatch",
            "Waiting jobs asked about at sites that advertise: Requirements hold, or those of the site or task do not",
            ["answer"],
            registry=registry,
        )
        self.unreadable_secrets = Counter(
            "orrery_secrets_unreadable",
            "Secrets that no known key decrypts: their jobs go without",
            registry=registry,
        )
        self.reports = Counter(
            "orrery_job_reports", "Reports of pilots, by effect and command", ["effect", "command"], registry=registry
        )
        self.lost_fields = Counter(
            "orrery_report_fields_lost",
            "Fields of reports that were not kept because their values cannot be, by field",
            ["field"],
            registry=registry,
        )
        self.report_batch = Histogram(
            "orrery_report_batch",
            "Reports in one transaction",
            buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256),
            registry=registry,
        )
        self.bad_calls = Counter(
            "orrery_pilot_calls_refused",
            "Calls of pilots that changed nothing because of what was sent, by the protocol's status code",
            ["code"],
            registry=registry,
        )
        self.over_limit = Counter(
            "orrery_calls_over_limit",
            "Calls of pilots that were put off because there are too many of one subject or from one address",
            ["limit"],
            registry=registry,
        )
        self.open_queues = Gauge("orrery_window_queues", "Queues with windows in memory", registry=registry)
        self.window_entries = Gauge("orrery_window_entries", "Jobs in the windows", registry=registry)
