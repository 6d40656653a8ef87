"""Which rules mean a task queue is remembered for as long as it may be true."""

from __future__ import annotations

from services.job_dispatch.acquire.site_limits import SiteLimits
from shared.config.parameters import Parameters
from shared.order.identity import TaskQueueIdentity

ANNS = TaskQueueIdentity("demo", "ann", "g", 3600)


def limits() -> SiteLimits:
    """No job of the group may run at ALPHA."""
    parameters = Parameters()
    parameters.version = 1
    parameters.set_for_test("order", "RUNNING_LIMITS", {"ALPHA": {"OwnerGroup": {"g": 0}}})
    found = SiteLimits(parameters, lambda: 0.0)
    found.configure()
    assert found.has_rules
    return found


def test_task_queues_that_have_ended_are_forgotten_with_the_next_reading() -> None:
    found = limits()
    for number in range(1000):
        assert found.held({"Q1": "ALPHA"}, "Q1", number, ANNS) is not None
    assert len(found._meant) == 1000
    found.were_read([], 1.0)
    assert not found._meant


def test_a_queue_that_moves_to_another_site_has_the_rules_of_that_one() -> None:
    found = limits()
    assert found.held({"Q1": "BETA"}, "Q1", 1, ANNS) is None
    found.sites_changed()
    assert found.held({"Q1": "ALPHA"}, "Q1", 1, ANNS) is not None
