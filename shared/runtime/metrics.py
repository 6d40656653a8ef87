"""What the runtime itself tells Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class RuntimeMetrics:
    """One per process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.periodic_runs = Counter(
            "orrery_periodic_runs",
            "Runs of periodic work by outcome (done, failed, lost: the lease went to somebody else meanwhile)",
            ["service", "periodic", "outcome"],
            registry=registry,
        )
        self.periodic_seconds = Histogram(
            "orrery_periodic_seconds", "Duration of periodic work", ["service", "periodic"], registry=registry
        )
        self.lease_held = Gauge(
            "orrery_lease_held", "1 while this process holds the lease", ["lease"], registry=registry
        )
        self.cache_misses = Counter(
            "orrery_cache_misses",
            "Values not found in Redis, by cause (absent, failure, silenced)",
            ["cause"],
            registry=registry,
        )
        self.callers_refused = Counter(
            "orrery_callers_refused",
            "Requests whose caller is not believed: token, certificate, claim (of a VO or role that the token does not "
            "have), certificate_from_elsewhere (a header of a TLS proxy from an address that is none; it is ignored)",
            ["why"],
            registry=registry,
        )
        self.refused = Counter(
            "orrery_refused",
            "Refusals by route and cause: not permitted (role, right, VO, owner, hold, limit), not found (or "
            "not theirs), state, a field that reaches for more than the caller's part, body, value (all other fields)",
            ["route", "cause"],
            registry=registry,
        )
        self.put_off = Counter(
            "orrery_calls_put_off",
            "Calls answered with 429: too many of one caller, from one address without a token (address), or from an "
            "address whose tokens were refused (failed)",
            ["limit"],
            registry=registry,
        )
        self.connections_cut = Counter(
            "orrery_connections_cut",
            "Connections closed because a request came too late or was one slow one too many (slow), nobody took the "
            "answer, or there were too many connections from one address or of all",
            ["why"],
            registry=registry,
        )
        self.background_restarts = Counter(
            "orrery_background_restarts",
            "Background loops that failed and were started again",
            ["service"],
            registry=registry,
        )

    def request_refused(self, route: str, cause: str) -> None:
        """One refusal that was told."""
        self.refused.labels(route, cause).inc()

    def caller_refused(self, why: str) -> None:
        """One request whose caller is not believed."""
        self.callers_refused.labels(why).inc()
