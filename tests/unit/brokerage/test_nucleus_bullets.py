"""Production task brokerage, each check of the document in its order through the whole decision: the first number that

is left out with its explanation, the last that passes, and which of two checks is the one that is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from typing import Any

import pytest

from services.task_brokerage.policy.columns import build_nuclei
from services.task_brokerage.policy.filters import FILTERS
from services.task_brokerage.policy.production import ProductionTaskBrokerage
from shared.brokerage.nucleus import RemainingWork, TaskRequest
from shared.brokerage.request import InputDataset, InputReplica
from shared.brokerage.world import World
from shared.model.link import Link
from shared.model.site import Site
from tests.unit.brokerage.parts import Case, explanation, named, neighbours
from tests.unit.brokerage.worlds import NOW, a_queue, a_request, a_storage, a_world

GB = 1024**3
A, PARENT = "A", "P"


@dataclass(frozen=True)
class NucleusPart:
    """Changes to nucleus A, its storage, its queue and the task."""

    site: Mapping[str, Any] = field(default_factory=dict)
    storage: Mapping[str, Any] = field(default_factory=dict)
    queue: Mapping[str, Any] = field(default_factory=dict)
    link: Mapping[str, Any] = field(default_factory=dict)
    task: Mapping[str, Any] = field(default_factory=dict)


def both(first: NucleusPart, second: NucleusPart) -> NucleusPart:
    """Two parts at once; where they contradict each other the first is right."""
    return NucleusPart(
        **{one.name: {**getattr(second, one.name), **getattr(first, one.name)} for one in fields(NucleusPart)}
    )


def world_of(part: NucleusPart) -> World:
    """Nucleus A, and P, which is for full chains only."""
    site = {"state": "ACTIVE", "is_nucleus": True, "default_storage": "A_DATADISK", **part.site}
    return a_world(
        [a_queue("Q_A", A, **part.queue), a_queue("Q_P", PARENT)],
        sites=[
            Site(A, **site),
            Site(PARENT, "ACTIVE", is_nucleus=True, bare_nucleus="only", default_storage="P_DATADISK"),
        ],
        storages=[
            a_storage(
                "A_DATADISK",
                part.storage.get("site", A),
                **{key: value for key, value in part.storage.items() if key != "site"},
            )
        ],
        links=[Link("FAR", A, queued_at=NOW, **part.link)],
    )


def task_of(part: NucleusPart) -> TaskRequest:
    return TaskRequest(**{"task_id": 1, "now": NOW, "job": a_request(), **part.task})


def local_input(gigabytes: int, files: int) -> NucleusPart:
    """Of 100 GB in 1000 files so much is at A; the task reads too much to do without."""
    replicas = (InputReplica("A_DATADISK", files, gigabytes * GB),)
    return NucleusPart(
        task={"inputs": (InputDataset("d", 1000, 100 * GB, replicas),), "io_intensity_kb_s": 201.0, "priority": 799}
    )


# 80 GB: the output of a day of 320 cores of power 10, a quarter of a GB each.
WORK = {"remaining_work": {A: RemainingWork(total_hs06_s=320 * 10 * 86_400)}}

# In the order of the document.
CASES = (
    Case("nuclei_are_in_the_ACTIVE_status", "nucleus_active", "configuration",
         lambda state: NucleusPart(site={"state": state}), "DISABLED", "ACTIVE", "state is ACTIVE no", "must be yes"),
    Case("nuclei_are_skipped_if_there_are_long_transfer_backlogs", "transfer_backlog", "capacity",
         lambda queued: NucleusPart(link={"queued_output": queued}), 2001, 2000,
         "files queued to the nucleus 2001 files", "at most 2000 files", temporary=True),
    Case("nuclei_have_associated_storages", "nucleus_storage", "configuration",
         lambda name: NucleusPart(site={"default_storage": name}, storage={"site": "B" if not name else A}),
         "", "A_DATADISK", "storages 0 storages", "at least 1 storages"),
    Case("storages_of_nuclei_can_be_written", "nucleus_storage_works", "data",
         lambda status: NucleusPart(storage={"detailed_status": {"write_wan": status}}), "OFF", "ON",
         "storage can be written no", "must be yes", temporary=True),
    Case("spaceFree_plus_spaceExpired_less_expected_output_is_more_than_DISK_THRESHOLD", "nucleus_space", "capacity",
         lambda free: NucleusPart(storage={"space_free_gb": free, "space_expired_gb": 200.0}, task=WORK),
         5000.0, 5000.1, "space left after existing work 5120 GB", "more than 5120 GB", temporary=True),
    Case("nuclei_have_a_queue_that_can_run_the_work", "able_queue", "configuration",
         lambda limit: NucleusPart(queue={"max_rss_mb": limit}), 899, 900,
         "queues that can run the work 0 queues", "at least 1 queues"),
    Case("the_local_fraction_of_the_input_size_is_larger_than_INPUT_SIZE_FRACTION", "input_size", "data",
         lambda gigabytes: local_input(gigabytes, 10 * gigabytes), 10, 11,
         "local part of the input size 0.1", "more than 0.1"),
    Case("the_local_fraction_of_the_number_of_files_is_larger_than_INPUT_NUM_FRACTION", "input_files", "data",
         lambda files: local_input(50, files), 100, 101, "local part of the input files 0.1", "more than 0.1"),
    Case("fullChain_only_needs_bareNucleus_only", "full_chain", "policy",
         lambda bare: NucleusPart(site={"bare_nucleus": bare}, task={"full_chain": "only"}), "allow", "only",
         "bareNucleus allow", "the task's fullChain allows only"),
    Case("fullChain_capable_follows_the_parent_to_its_bare_nucleus", "parent_nucleus", "policy",
         lambda parent: NucleusPart(site={"bare_nucleus": "allow"},
                                    task={"full_chain": "capable", "parent_nucleus": parent}), PARENT, A,
         "nucleus of the parent no", "must be yes"),
)  # fmt: skip


def renamed(case: Case) -> Any:
    return case.explanation.model_copy(update={"name": A})


def test_every_check_of_a_nucleus_is_here_in_the_order_of_the_document() -> None:
    assert [one.check for one in CASES] == [one.check.name for one in FILTERS]


@pytest.mark.parametrize("case", named(CASES))
def test_task_brokerage_leaves_a_nucleus_out_with_check_numbers_and_tier(case: Case) -> None:
    part = case.part(case.bad)
    decision = ProductionTaskBrokerage().decide(world_of(part), task_of(part), 1)
    assert A not in decision.chosen
    assert explanation(decision, A) == renamed(case)


@pytest.mark.parametrize("case", named(CASES))
def test_task_brokerage_takes_a_nucleus_at_the_last_number_that_passes(case: Case) -> None:
    part = case.part(case.good)
    decision = ProductionTaskBrokerage().decide(world_of(part), task_of(part), 1)
    assert explanation(decision, A) is None and decision.outcome == "chosen"


# A task that follows its parent is not asked for the kind of its nucleus.
@pytest.mark.parametrize(("first", "second"), neighbours(CASES, ("full_chain", "parent_nucleus")))
def test_of_two_checks_that_a_nucleus_fails_the_first_in_the_document_is_told(first: Case, second: Case) -> None:
    part = both(first.part(first.bad), second.part(second.bad))
    world, task = world_of(part), task_of(part)
    nuclei = build_nuclei(world, task)
    filters = {one.check.name: one for one in FILTERS}
    for check in (first.check, second.check):
        verdict = filters[check].decide(nuclei, task)
        assert verdict is not None and not verdict.passes[nuclei.names.index(A)], f"{check} is not failed at all"
    told = explanation(ProductionTaskBrokerage().decide(world, task, 1), A)
    assert told is not None and told.check == first.check


@pytest.mark.parametrize("part", [local_input(1, 500), local_input(50, 1)])
@pytest.mark.parametrize(("waited_s", "outcome"), [(7 * 86_400, "none"), (7 * 86_400 + 1, "chosen")])
def test_after_DATA_LOCATION_CHECK_PERIOD_in_assigning_the_locality_check_is_off(part, waited_s, outcome) -> None:
    task = replace(task_of(part), assigning_since=NOW - timedelta(seconds=waited_s))
    assert ProductionTaskBrokerage().decide(world_of(part), task, 1).outcome == outcome


@pytest.mark.parametrize(
    ("full_chain", "bare", "allowed"),
    [("only", "", "only"), ("require", "", "only or allow"), ("", "only", "normal or allow"),
     ("capable", "only", "normal or allow")],
)  # fmt: skip
def test_the_kind_of_nucleus_that_full_chain_allows_is_told(full_chain, bare, allowed) -> None:
    part = NucleusPart(site={"bare_nucleus": bare}, task={"full_chain": full_chain})
    told = explanation(ProductionTaskBrokerage().decide(world_of(part), task_of(part), 1), A)
    assert told is not None and told.wanted == f"the task's fullChain allows {allowed}"
    assert told.found == f"bareNucleus {bare or 'normal'}"
