"""Why a pilot got no job: the class of what would have to change first."""

from __future__ import annotations

from typing import Any

import pytest

from services.job_dispatch.policy.fitting import Misfit, Offer
from services.job_dispatch.policy.no_match import CLASSES, AtQueue, grown_wait_s, no_match
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


@pytest.mark.parametrize(
    ("offer", "found", "why", "reason"),
    [
        (Offer("Q", user_name="ann"), AtQueue(ONLINE, 2, [MEMORY]), "share", "user ann has no activated job"),
        (Offer("Q", working_group="HIGG"), AtQueue(ONLINE, 1), "share", "jobs of others that fit wait there"),
        (Offer("Q", working_group="HIGG"), AtQueue(ONLINE, 1, [MEMORY]), "nothing_queued", "working group HIGG has no"),
        (Offer("Q", user_name="ann"), AtQueue(ONLINE), "nothing_queued", "user ann has no activated job at Q"),
    ],
)
def test_a_pilot_that_serves_one_user_or_group_hears_that_what_fits_is_the_share_of_others(
    offer: Offer, found: AtQueue, why: str, reason: str
) -> None:
    told = no_match(offer, found, 60)
    assert told.why == why and reason in told.reason and why in CLASSES


@pytest.mark.parametrize(
    ("why", "empty_for_s", "wait_s"),
    [("nothing_queued", 0, 60), ("nothing_queued", 59, 60), ("nothing_queued", 130, 130), ("nothing_queued", 9e9, 300),
     ("queue_status", 400, 300), ("share", 400, 300), ("memory", 400, 60), ("limit", 400, 60), ("taken", 400, 60)],
)  # fmt: skip
def test_the_hint_grows_while_nothing_comes_and_what_may_change_at_once_keeps_the_usual_wait(
    why: Any, empty_for_s: float, wait_s: int
) -> None:
    assert grown_wait_s(why, 60, empty_for_s, 300) == wait_s


def test_the_time_between_two_questions_doubles_up_to_the_longest() -> None:
    asked_at, waits = 0.0, []
    for _ in range(6):
        waits.append(grown_wait_s("nothing_queued", 60, asked_at, 300))
        asked_at += waits[-1]
    assert waits == [60, 60, 120, 240, 300, 300]
