"""The limits of one process by its settings, counted for Prometheus: each replica has its own."""

from __future__ import annotations

from shared.auth import Authority
from shared.auth.addresses import Proxies
from shared.auth.authentication import Authentication
from shared.auth.call_rates import ADDRESS, CALLER, FAILED, CallLimits
from shared.auth.configuration import IdentityFile
from shared.config.settings import AnsweringSettings, ListeningSettings
from shared.runtime.metrics import RuntimeMetrics
from shared.web.connections import Connections


def limits_of(settings: AnsweringSettings, metrics: RuntimeMetrics) -> CallLimits:
    """Of calls."""
    rates = {
        CALLER: settings.calls_per_caller_per_s,
        ADDRESS: settings.calls_per_address_per_s,
        FAILED: settings.refused_tokens_per_address_per_s,
    }
    return CallLimits(rates, burst_s=settings.call_burst_s, count=lambda limit: metrics.put_off.labels(limit).inc())


def authentication_with(
    settings: AnsweringSettings, authority: Authority, identity: IdentityFile, metrics: RuntimeMetrics
) -> Authentication:
    """Whom this process believes, within its limits."""
    return Authentication(
        authority,
        identity,
        limits=limits_of(settings, metrics),
        forwarders=settings.forwarding_networks,
        count=metrics.caller_refused,
    )


def connections_of(settings: ListeningSettings, proxies: Proxies, metrics: RuntimeMetrics) -> Connections:
    """Of connections."""
    return Connections(
        most_of_one=settings.connections_per_address,
        most_slow=settings.slow_requests_per_address,
        proxies=proxies,
        count=lambda why: metrics.connections_cut.labels(why).inc(),
    )
