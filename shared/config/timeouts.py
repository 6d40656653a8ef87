"""How long jobs may stay in a state: limits that the watchdog keeps and that users are told."""

from __future__ import annotations

from shared.config.parameter import SERVER, Parameter


def job_timeout(state: str, limit_h: float) -> Parameter[float]:
    """The limit in hours of one rule (PanDA brokerage: Timeout Rules)."""
    means = f"longest time of jobs, 0: any: {state.replace('_', ' ')}"
    return Parameter("job_timeout", f"TIMEOUT_{state}", float(limit_h), "h", means, app=SERVER)


SENT_TIMEOUT = job_timeout("sent", 0.5)
