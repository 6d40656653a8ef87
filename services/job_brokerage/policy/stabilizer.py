"""The Analysis Stabilizer: how many jobs a user may have queued at each queue (PanDA brokerage)."""

from __future__ import annotations

import numpy as np

from shared.brokerage.analysis_facts import AnalysisFacts
from shared.brokerage.check import Mask, Numbers


def may_be_throttled(facts: AnalysisFacts) -> Mask:
    """Queues with enough queued jobs: BASE_QUEUE_LENGTH_PER_PQ and BASE_EXPECTED_WAIT_HOUR_ON_PQ."""
    limits = facts.limits
    return (facts.queued >= limits.base_queue_length) & (
        facts.queued >= limits.base_expected_wait_h * facts.started_per_hour
    )


def affordable_queue(facts: AnalysisFacts) -> Numbers:
    """nQ_max of each queue: the most jobs that are worth queueing there.

    Why: a queue that runs or starts many works off a longer line. Example: a base of 100, a ratio of 3 with 50 running
    jobs, and 2 h of 20 starts give max(100, 150, 40) = 150. Source: PanDA brokerage, Analysis Stabilizer.
    """
    limits = facts.limits
    by_running = limits.max_queue_running_ratio * facts.running
    return np.maximum(
        np.maximum(limits.base_queue_length, by_running), limits.max_expected_wait_h * facts.started_per_hour
    )


def user_percentage(facts: AnalysisFacts) -> Numbers:
    """The user's part: of the running jobs, at least that of one among the users of the queue.

    Why: a user who has just begun has no running jobs, but a right to begin. Example: 5 of 50 running jobs are 0.1;
    among 4 users at least 1 / 4 = 0.25 counts. Source: PanDA brokerage, Analysis Stabilizer.
    """
    running = np.divide(facts.running_of_user, facts.running, out=np.zeros_like(facts.running), where=facts.running > 0)
    return np.maximum(running, 1 / np.maximum(facts.n_users, 1))


def max_user_queue(facts: AnalysisFacts) -> Numbers:
    """max_q_len of each queue for the user: a part of nQ_max, at least a base.

    Why: one user must not fill a queue alone. Example: a base of 5, a ratio of 0.05 with 50 running jobs, and 0.25 of
    150 give max(5, 2.5, 37.5) = 37.5. Source: PanDA brokerage, Analysis Stabilizer.
    """
    limits = facts.limits
    base = np.maximum(limits.base_user_queue_length, limits.base_queue_ratio * facts.running)
    return np.maximum(base, affordable_queue(facts) * user_percentage(facts))
