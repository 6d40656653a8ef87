"""Limits on the calls of pilots by subject and by address; final reports of jobs have none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from services.job_dispatch.metrics import DispatchMetrics
from services.job_dispatch.parameters import CALL_BURST_S, CALLS_PER_ADDRESS_PER_S, CALLS_PER_SUBJECT_PER_S
from shared.auth import authentication_of, caller_of_scope
from shared.auth.addresses import counted_as
from shared.auth.call_rates import CallRate, TokenBuckets, TooManyCalls
from shared.config.parameters import Parameters

READ_EVERY_S = 1.0


class PilotLimits:
    """Counts the calls that this process answers; the parameters are looked at once a second."""

    def __init__(self, parameters: Parameters, metrics: DispatchMetrics, clock: Callable[[], float]) -> None:
        self._parameters = parameters
        self._metrics = metrics
        self._clock = clock
        self._read_at = float("-inf")
        self._rates: dict[str, CallRate] = {}
        self._buckets = {"subject": TokenBuckets(), "address": TokenBuckets()}

    def check(self, scope: Any) -> None:
        """Count one call. Raises TooManyCalls."""
        now = self._clock()
        if now - self._read_at >= READ_EVERY_S:
            self._read(now)
        for limit, rate in self._rates.items():
            is_subject = limit == "subject"
            who = caller_of_scope(scope).name if is_subject else counted_as(authentication_of(scope).address(scope))
            wait_s = self._buckets[limit].take(who, rate, now)
            if wait_s:
                self._metrics.over_limit.labels(limit).inc()
                said = f"more than {rate.calls_per_s:g} calls/s {'of' if is_subject else 'from'} {who}"
                raise TooManyCalls(said, wait_s)

    def _read(self, now: float) -> None:
        self._read_at = now
        burst_s = self._parameters.read(CALL_BURST_S)
        wanted = {
            "subject": self._parameters.read(CALLS_PER_SUBJECT_PER_S),
            "address": self._parameters.read(CALLS_PER_ADDRESS_PER_S),
        }
        self._rates = {limit: CallRate(calls, burst_s) for limit, calls in wanted.items() if calls > 0}
