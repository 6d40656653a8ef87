"""What a person is told about a decision: numbers as they are, and what would have been allowed."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from services.job_brokerage.policy import analysis, production
from services.job_brokerage.policy.production import ProductionJobBrokerage
from services.task_brokerage.policy.filters import FILTERS
from services.task_definition.tasks.policy.could_run import could_run
from shared.brokerage.check import Tier, compared
from shared.brokerage.decision import Decision
from shared.brokerage.explained import explain_row
from shared.brokerage.filters import capability
from shared.brokerage.pipeline import PASSED
from shared.brokerage.request import HIGH_PRIORITY
from shared.model.queue import QueueStatus
from tests.unit.brokerage.worlds import NOW, a_queue, a_request, a_world


@pytest.mark.parametrize("term", [2e-11, 1 / 3e15, 0.1, 1.0, 12345.678, 4e20, 0.0])
def test_a_term_is_shown_with_significant_digits_however_small_it_is(term) -> None:
    decision = Decision(
        kind="task",
        task_id=1,
        plugin="production",
        seed=1,
        world_version=1,
        decided_at=NOW,
        names=("ALPHA", "BETA"),
        codes=np.array([PASSED, PASSED], np.int16),
        found=np.zeros(2),
        wanted=np.zeros(2),
        weights=np.ones(2),
        checks={},
        chosen=("ALPHA",),
        terms={"remaining_work": np.array([term, np.nan])},
    )
    stored = decision.packed()["terms"]["remaining_work"]
    assert stored == [pytest.approx(term, rel=1e-8, abs=0), None]
    shown = {one["name"]: one["terms"]["remaining_work"] for one in explain_row(decision.packed())}
    assert shown == {"ALPHA": stored[0], "BETA": None}


@pytest.mark.parametrize(
    ("changes", "allowed"),
    [({}, "std or all"), ({"is_event_service": True}, "es or all"),
     ({"is_event_service": True, "is_scout": True}, "es, eshigh or all"),
     ({"is_event_service": True, "priority": HIGH_PRIORITY}, "es, eshigh or all")],
)  # fmt: skip
def test_event_service_names_the_jobseeds_that_are_allowed(changes: dict[str, Any], allowed: str) -> None:
    seeds = ("std", "es", "eshigh", "all")
    one, request = capability.EVENT_SERVICE, a_request(**changes)
    verdict = capability.event_service.decide(a_world([a_queue(seed, jobseed=seed) for seed in seeds]), request)
    assert verdict is not None
    assert [one.text(float(number)) for number in verdict.found] == sorted(seeds)
    assert one.text(float(verdict.wanted)) == allowed
    # What is named is what passes.
    passing = {seed for seed, passes in zip(sorted(seeds), verdict.passes, strict=True) if passes}
    assert passing == set(allowed.replace(",", " or").split(" or "))


def test_a_dynamic_number_of_events_names_the_mintime_that_is_missing() -> None:
    verdict = capability.dynamic_number_of_events.decide(
        a_world([a_queue("Q")]), a_request(dynamic_number_of_events=True)
    )
    assert verdict is not None
    one = capability.DYNAMIC_EVENTS
    assert [one.text(float(number)) for number in (verdict.found[0], verdict.wanted)] == ["0 s", "0 s"]
    assert (one.found, one.wanted) == ("mintime of the queue", "more than")


def test_zero_share_shows_the_sub_policy_of_each_queue_also_when_the_grid_has_changed_since() -> None:
    policies = {
        "A": "type=evgen:0%",
        "B": "type=simul:50%,type=evgen:group=X:0%",
        "C": "type=evgen:100%,type=any:0%",
        "D": "type=simul:100%,type=any:0%",
    }
    world = a_world([a_queue(name, fair_share_policy=text) for name, text in policies.items()])
    request = a_request(processing_type="evgen", working_group="X")
    stored = ProductionJobBrokerage().decide(world, request, 1).packed()
    assert json.loads(json.dumps(stored["checks"]))["403"]["words"][0] == "none"
    shown = {one["name"]: one.get("found") for one in explain_row(stored)}
    assert shown == {
        "A": "turned away by sub-policy type=evgen:0%",
        "B": "turned away by sub-policy type=evgen:group=X:0%",
        "C": None,
        "D": "turned away by sub-policy type=any:0%",
    }
    assert {one["wanted"] for one in explain_row(stored) if one["check"]} == {"must be none"}


UCORE: dict[str, Any] = {"core_count": 8, "capability": "ucore", "max_rss_mb": 16_000}


def test_queues_are_counted_once_however_many_resource_types_they_have() -> None:
    world = a_world([
        a_queue("ALL", **UCORE), a_queue("ONE"), a_queue("OFF", **UCORE, status=QueueStatus.OFFLINE),
        a_queue("SMALL", **UCORE | {"max_rss_mb": 10}),
    ])  # fmt: skip
    assert len(world.columns) > 4
    decision = ProductionJobBrokerage().decide(world, a_request(), 1)
    summary = decision.summary()
    assert (summary["considered"], summary["passed"]) == (4, 2)
    assert sum(summary["checks"].values()) == sum(summary["tiers"].values()) == 2
    assert summary["tiers"] == {Tier.CONFIGURATION.value: 2} and summary["checks"]["status"] == 1
    assert decision.reason().startswith("4 queues, 2 passed: 2 configuration; nearest miss: ")
    # Each resource type keeps its own entry.
    assert [one["name"] for one in explain_row(decision.packed())].count("ALL/SCORE") == 1
    assert could_run(world, a_request()).summary()["considered"] == 4


@pytest.mark.parametrize(
    ("found", "wanted", "text"),
    [
        ("local part of the input 0.08", "more than 0.1", "local part of the input 0.08, wanted: more than 0.1"),
        ("missing input 3 files", "at most 0 files", "missing input 3 files, wanted: at most 0 files"),
        ("named by the task or chunk no", "must be yes", "named by the task or chunk no, must be yes"),
        ("memory of a job 9 MB", "maxrss of the queue 1 MB", "memory of a job 9 MB, maxrss of the queue 1 MB"),
    ],
)  # fmt: skip
def test_a_limit_is_said_to_be_what_is_wanted(found: str, wanted: str, text: str) -> None:
    assert compared(found, wanted) == text


NUCLEI = [one.check for one in FILTERS]
LIMITS = ("free_space", "nucleus_space", "input_size", "input_files", "dynamic_number_of_events", "bad_jobs", "queued")


@pytest.mark.parametrize("name", LIMITS)
def test_the_checks_that_have_a_limit_say_so(name: str) -> None:
    asked = [
        one.check for pipeline in (production.PIPELINE, production.CAPS, analysis.PIPELINE) for one in pipeline.filters
    ]
    check = next(one for one in (*asked, *NUCLEI) if one.name == name)
    assert ", wanted: " in compared(f"{check.found} 1", f"{check.wanted} 2")


def test_large_numbers_are_told_without_an_exponent() -> None:
    assert capability.SCRATCH_DISK.text(976_562_500_000.0) == "976562500000 MB"
    assert capability.SCRATCH_DISK.text(0.25) == "0.25 MB"
