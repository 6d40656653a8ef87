"""The new basic weight of analysis brokerage: site class times queue length (PanDA brokerage)."""

from __future__ import annotations

import numpy as np

from services.job_brokerage.policy.stabilizer import max_user_queue
from shared.brokerage.analysis_facts import AnalysisFacts
from shared.brokerage.check import Mask, Numbers
from shared.brokerage.classes import CLASS_B, CLASS_C, HI, LO, MID
from shared.brokerage.usage import CLASSIFIED_SHARES

# The document's small numbers, so that no weight is zero: first and second choice after the class' own sites.
EPSILON_1, EPSILON_2 = 0.01, 0.001
# The least part of a queue's room that counts, for each job.
LEAST_ROOM = 0.001


def site_class_weight(facts: AnalysisFacts, n_jobs: int) -> Numbers:
    """N_j at the sites that suit the task's class, a small number elsewhere.

    In shares whose work is not classified it is N_j everywhere. Why: each class of tasks has sites of
    its own, and the small numbers still order the others. Example: 10 jobs of a C task weigh 10 at lo sites, 0.01 at
    mid and 0.001 at hi sites. Source: PanDA brokerage, new basic weight.
    """
    jobs = float(max(1, n_jobs))
    if facts.task.gshare not in CLASSIFIED_SHARES:
        return np.full(len(facts.site_class), jobs)
    if facts.task_class == CLASS_C:
        by_class = {LO: jobs, MID: EPSILON_1, HI: EPSILON_2}
    elif facts.task_class == CLASS_B:
        by_class = {MID: jobs, LO: EPSILON_1, HI: EPSILON_2}
    else:
        by_class = {HI: jobs, MID: EPSILON_1, LO: EPSILON_2}
    return np.array([by_class[int(one)] for one in facts.site_class], np.float64)


def queue_length_weight(facts: AnalysisFacts, alive: Mask, n_jobs: int) -> Numbers:
    """A weight that falls with the user's queued jobs.

    It is (room - N_j / number of candidates) / (sum of room - N_j), where room is max_q_len - queued jobs of the user.

    With less room than jobs the weights are in proportion to the room, without any they are equal. Why: a user's jobs
    are spread so that no queue gets more than it may hold. Example: for 20 jobs, rooms of 60 and 40 give
    (60 - 10) / 80 = 0.625 and (40 - 10) / 80 = 0.375. Source: PanDA brokerage, new basic weight.
    """
    room = np.where(alive, np.maximum(0.0, max_user_queue(facts) - facts.queued_of_user), 0.0)
    jobs, candidates, total = float(max(1, n_jobs)), int(alive.sum()), float(room.sum())
    if candidates == 0:
        return np.zeros(len(room))
    if total > jobs:
        return np.where(alive, np.maximum(room - jobs / candidates, LEAST_ROOM * jobs) / (total - jobs), 0.0)
    return room / total if total > 0 else alive / candidates


def new_basic(facts: AnalysisFacts, alive: Mask, n_jobs: int) -> dict[str, Numbers]:
    """Its two factors."""
    return {
        "site_class": site_class_weight(facts, n_jobs),
        "queue_length": queue_length_weight(facts, alive, n_jobs),
    }
