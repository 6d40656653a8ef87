"""Which rules mean a task queue is remembered for as long as it may be true."""

from __future__ import annotations

from dataclasses import replace

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


def test_limits_of_one_vo_replace_the_general_ones_for_its_task_queues_alone() -> None:
    parameters = Parameters()
    parameters.version = 1
    parameters.set_for_test("order", "RUNNING_LIMITS", {"*": {"OwnerGroup": {"g": 3}}})
    parameters.set_for_test("order", "RUNNING_LIMITS", {"*": {"OwnerGroup": {"g": 3}}}, vo="demo")
    parameters.set_for_test("order", "MATCHING_DELAYS", {"ALPHA": {"Owner": {"ann": 30}}}, vo="cms")
    found, sites = SiteLimits(parameters, lambda: 0.0), {"Q1": "ALPHA"}
    found.configure()
    other, cms = replace(ANNS, vo="other"), replace(ANNS, vo="cms")
    found.were_read([("ALPHA", ANNS, 2), ("ALPHA", other, 1)], 1.0)
    assert found.held(sites, "Q1", 1, ANNS) is None and found.held(sites, "Q1", 2, other) is None
    found.were_read([("ALPHA", ANNS, 3), ("ALPHA", other, 1)], 2.0)
    held = found.held(sites, "Q1", 1, ANNS)
    assert held is not None and held.text == "ownergroup = 'g' of VO demo at every site: 3"
    assert found.held(sites, "Q1", 2, other) is None
    found.picked(sites, "Q1", 3, cms, 7)
    delayed = found.held(sites, "Q1", 3, cms)
    assert delayed is not None and delayed.vo == "cms"
    found.were_read([("ALPHA", ANNS, 3), ("ALPHA", other, 2), ("ALPHA", cms, 1)], 3.0)
    general = found.held(sites, "Q1", 2, other)
    assert general is not None and general.vo is None, "jobs of cms, which has no limits, count for the general one"
