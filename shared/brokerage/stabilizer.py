"""The Analysis Stabilizer: how many jobs a user may have queued at each queue (PanDA brokerage)."""

from __future__ import annotations

import numpy as np

from shared.brokerage.analysis_facts import AnalysisFacts
from shared.brokerage.check import Mask, Numbers


def may_be_throttled(facts: AnalysisFacts) -> Mask:
    """Queues with enough queued jobs: BASE_QUEUE_LENGTH_PER_PQ, and BASE_EXPECTED_WAIT_HOUR_ON_PQ of starts."""
    limits = facts.limits
    return (facts.queued >= limits.base_queue_length) & (
        facts.queued >= limits.base_expected_wait_h * facts.started_per_hour
    )


def affordable_queue(facts: AnalysisFacts) -> Numbers:
    """nQ_max of each queue."""
    limits = facts.limits
    by_running = limits.max_queue_running_ratio * facts.running
    return np.maximum(
        np.maximum(limits.base_queue_length, by_running), limits.max_expected_wait_h * facts.started_per_hour
    )


def user_percentage(facts: AnalysisFacts) -> Numbers:
    """The user's part: of the running jobs, at least that of one among the users of the queue."""
    running = np.divide(facts.running_of_user, facts.running, out=np.zeros_like(facts.running), where=facts.running > 0)
    return np.maximum(running, 1 / np.maximum(facts.n_users, 1))


def max_user_queue(facts: AnalysisFacts) -> Numbers:
    """max_q_len of each queue for the user."""
    limits = facts.limits
    base = np.maximum(limits.base_user_queue_length, limits.base_queue_ratio * facts.running)
    return np.maximum(base, affordable_queue(facts) * user_percentage(facts))
