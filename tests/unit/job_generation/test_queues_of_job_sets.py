"""Which queues can still run event service for a job set, and when there is none any more."""

from __future__ import annotations

import pytest

from services.job_generation.kinds.event_service.policy.placing import queues_of_set
from services.job_generation.policy.values import QueueFacts
from shared.model.queue import QueueStatus

ONLINE, OFFLINE, PAUSED = QueueStatus.ONLINE, QueueStatus.OFFLINE, QueueStatus.PAUSED


def queue(name: str, status: QueueStatus = ONLINE, jobseed: str = "all", *, jumbo: bool = False) -> QueueFacts:
    return QueueFacts(name, "SCORE", name, status=status, jobseed=jobseed, runs_jumbo_jobs=jumbo)


@pytest.mark.parametrize(
    ("known", "is_high", "in_vain", "usable"),
    [
        ([queue("A"), queue("B")], False, "", ["A", "B"]),
        ([queue("B")], False, "", ["B"]),  # A left the grid
        ([], False, "", []),
        ([queue("A", jobseed="std"), queue("B", jobseed="es")], False, "", ["B"]),
        ([queue("A", jobseed="eshigh")], False, "", []),
        ([queue("A", jobseed="eshigh")], True, "", ["A"]),
        *(([queue("A", status), queue("B")], False, "", ["A", "B"])
          for status in (QueueStatus.BROKEROFF, QueueStatus.TEST, QueueStatus.STANDBY)),
        ([queue("A", OFFLINE), queue("B")], False, "", ["B"]),
        ([queue("A", OFFLINE), queue("B", OFFLINE)], False, "", ["A", "B"]),  # a short outage: a job waits
        ([queue("A", OFFLINE), queue("B", OFFLINE)], False, "AB", []),
        ([queue("A", OFFLINE), queue("B", OFFLINE)], False, "A", ["B"]),  # nobody waited at B yet
        ([queue("A"), queue("B", OFFLINE)], False, "AB", ["A"]),
        ([queue("A", OFFLINE), queue("B", PAUSED)], False, "AB", ["B"]),
        ([queue("A", OFFLINE), queue("B", PAUSED), queue("C")], False, "AB", ["C"]),
        ([queue("A"), queue("J", jumbo=True)], False, "", ["A"]),
        ([queue("A", OFFLINE), queue("J", jumbo=True)], False, "", ["J"]),
    ],
)  # fmt: skip
def test_a_queue_is_gone_that_left_the_grid_or_takes_no_event_service_or_was_offline_for_as_long_as_a_job_waits(
    known: list[QueueFacts], is_high: bool, in_vain: str, usable: list[str]
) -> None:
    ranked = [(name, "SCORE") for name in ("A", "B", "C", "J")]
    found = queues_of_set(ranked, known, is_high=is_high, waited_in_vain=in_vain)
    assert [one.queue for one in found.usable] == usable


def test_the_reason_names_each_queue_of_the_set_with_what_it_lacks() -> None:
    ranked = [("A", "SCORE"), ("B", "SCORE"), ("C", "MCORE")]
    found = queues_of_set(ranked, [queue("A", jobseed="std"), queue("B", OFFLINE)], is_high=False, waited_in_vain="B")
    assert found.reason == (
        "no ES queue: A/SCORE takes no event service (jobseed std); B/SCORE is offline, and a job waited for it in "
        "vain; C/MCORE is not in the grid"
    )
