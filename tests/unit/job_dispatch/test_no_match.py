"""Why a pilot got no job: the class of what would have to change first."""

from __future__ import annotations

import pytest

from services.job_dispatch.policy.fitting import Misfit, Offer
from services.job_dispatch.policy.no_match import CLASSES, AtQueue, no_match
from shared.model.queue import QueueStatus

ONLINE, MEMORY, LABEL = QueueStatus.ONLINE, Misfit("memory", "memory 16000 MB"), Misfit("label", "label managed")


@pytest.mark.parametrize(
    ("found", "why", "reason", "retry_after_s"),
    [
        (AtQueue(None), "unknown_queue", "the queue 'Q' is not known", 60),
        (AtQueue(ONLINE), "nothing_queued", "no activated jobs at Q", 60),
        (AtQueue(QueueStatus.BROKEROFF), "queue_status", "which is brokeroff: brokerage sends it nothing", 60),
        (AtQueue(QueueStatus.OFFLINE), "queue_status", "Q is offline: its pilots get no jobs", 60),
        (AtQueue(QueueStatus.PAUSED, 3, [MEMORY]), "queue_status", "Q is paused: its pilots get no jobs", 60),
        (AtQueue(QueueStatus.TEST), "nothing_queued", "no activated jobs at Q", 60),
        (AtQueue(QueueStatus.BROKEROFF, 1, [MEMORY]), "memory", "none fits: memory 16000 MB", 60),
        (AtQueue(ONLINE, 3, [LABEL, MEMORY, MEMORY]), "memory", "none fits: memory 16000 MB (and 2 other kinds)", 60),
        (AtQueue(ONLINE, 2, [LABEL, MEMORY]), "label", "label managed (and 1 other kinds)", 60),
        (AtQueue(ONLINE, 2, [MEMORY, MEMORY], "the site wants less"), "requirements", "the site wants less", 60),
        (AtQueue(ONLINE, 1), "taken", "were taken by others just now", 6),
    ],
)
def test_the_class_is_that_of_what_would_have_to_change_first(
    found: AtQueue, why: str, reason: str, retry_after_s: int
) -> None:
    told = no_match(Offer("Q"), found, 60)
    assert (told.why, told.retry_after_s) == (why, retry_after_s) and reason in told.reason and why in CLASSES


def test_a_pilot_that_asks_for_one_task_hears_about_that_task() -> None:
    told = no_match(Offer("Q", task_id=7), AtQueue(ONLINE, 1, [MEMORY]), 60)
    assert told.why == "nothing_queued" and told.reason == "task 7 has no activated job at Q that fits"
