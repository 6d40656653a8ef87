from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from services.job_brokerage.parameters import limits_from
from services.job_brokerage.policy.analysis import AnalysisJobBrokerage
from services.job_brokerage.policy.example_vo import ExampleJobBrokerage
from services.job_brokerage.policy.production import ProductionJobBrokerage
from services.job_brokerage.policy.request import job_request
from shared.brokerage.explained import explain_row
from shared.brokerage.limits import JobLimits
from shared.brokerage.load import JobCount
from shared.brokerage.request import InputDataset, InputReplica
from shared.brokerage.world import World
from shared.config.parameters import Parameters
from shared.model.grid import parse_grid, read_grid_folder
from shared.model.link import Link
from shared.model.names import names_in
from shared.model.queue import QueueStatus
from shared.plugins.conformance import PluginConformance
from tests.unit.brokerage.worlds import NOW, a_queue, a_request, a_storage, a_world

GRID = Path(__file__).parents[3] / "deploy" / "examples" / "grid"


def test_the_best_ten_are_chosen_best_first() -> None:
    queues = [a_queue(f"Q{number:02}", core_count=1) for number in range(15)]
    world = a_world(queues, jobs=[JobCount(f"Q{number:02}", "", "running", number) for number in range(15)])
    decision = ProductionJobBrokerage().decide(world, a_request(), seed=7)
    assert decision.chosen == tuple(f"Q{number:02}" for number in range(14, 4, -1))
    weights = [one.weight for one in decision.candidates]
    assert weights == sorted(weights, reverse=True)
    assert decision.retry_at is None and decision.seed == 7


def test_queues_of_equal_weight_are_ordered_by_name() -> None:
    world = a_world([a_queue(name) for name in ("C", "A", "B")])
    assert ProductionJobBrokerage().decide(world, a_request(), 1).chosen == ("A", "B", "C")


def test_a_candidate_of_a_unified_queue_has_the_pseudo_queues_resource_type() -> None:
    world = a_world([a_queue("U", capability="ucore", core_count=8, max_rss_mb=32_000), a_queue("W")])
    decision = ProductionJobBrokerage().decide(world, a_request(), 1)
    assert {(one.queue, one.resource_type) for one in decision.candidates} == {("U", "SCORE"), ("W", "SCORE")}


def test_the_weight_is_the_product_of_its_terms() -> None:
    world = a_world(
        [a_queue("A", "SA"), a_queue("B", "SB")],
        links=[Link("SA", "NUC", mbps_1h=150.0, mbps_at=NOW), Link("SB", "NUC", closeness=11)],
        jobs=[JobCount("A", "", "running", 10)],
    )
    dataset = InputDataset("d", 10, 1000, (InputReplica("SB_DATADISK", 10, 1000),))
    decision = ProductionJobBrokerage().decide(world, a_request(nucleus="NUC", inputs=(dataset,)), 1)
    assert set(decision.terms) == {"running", "queued", "many_assigned", "data_availability", "network", "t1_weight"}
    product = np.prod([decision.terms[name] for name in decision.terms], axis=0)
    assert np.allclose(product, decision.weights)
    assert decision.weights.tolist() == pytest.approx([11 / 10 * (1 / 1.1) * 1.95, 1 / 10 * 2 * 1.5])


def test_production_without_a_queue_waits_an_hour_and_analysis_twenty_minutes() -> None:
    world = a_world([a_queue("A", status=QueueStatus.OFFLINE)])
    production = ProductionJobBrokerage().decide(world, a_request(), 1)
    analysis = AnalysisJobBrokerage().decide(world, a_request(is_analysis=True), 1)
    assert production.retry_at == NOW + timedelta(hours=1)
    assert analysis.retry_at == NOW + timedelta(minutes=20)
    assert production.outcome == "none" and not production.candidates


def test_an_empty_grid_is_said_to_be_empty() -> None:
    decision = ProductionJobBrokerage().decide(a_world([]), a_request(), 1)
    assert decision.reason() == "there are no queues" and decision.retry_at is not None


def test_the_reason_counts_tiers_and_names_the_nearest_miss() -> None:
    queues = [
        a_queue("OFF", status=QueueStatus.OFFLINE), a_queue("FULL", "F"),
        a_queue("SMALL", max_rss_mb=100), a_queue("NEARLY", max_rss_mb=890),
    ]  # fmt: skip
    world = a_world(queues, storages=[a_storage("F_DATADISK", "F", space_free_gb=1)])
    decision = ProductionJobBrokerage().decide(world, a_request(), 1)
    summary = decision.summary()
    assert summary["tiers"] == {"configuration": 3, "capacity": 1}
    assert summary["checks"] == {"status": 1, "memory_too_large": 2, "free_space": 1}
    assert not summary["temporary"]
    assert decision.reason() == (
        "4 queues, 0 passed: 3 configuration, 1 capacity; nearest miss: FULL (free_space: usable space of the output "
        "storage 1 GB, wanted: more than 200 GB)"
    )
    assert decision.exclusion("NEARLY") is not None
    check, found, wanted = decision.exclusion("NEARLY") or (None, 0, 0)
    assert check is not None and (check.name, found, wanted) == ("memory_too_large", 900, 890)


def test_a_stored_decision_can_be_read_without_the_code_that_made_it() -> None:
    queues = [a_queue("OFF", status=QueueStatus.OFFLINE), a_queue("GOOD")]
    packed = ProductionJobBrokerage().decide(a_world(queues), a_request(), 1).packed()
    stored = json.loads(json.dumps(packed | {"retry_at": None}, allow_nan=True))
    good, off = explain_row(stored)
    assert good["name"] == "GOOD" and good["weight"] > 0 and good["terms"]["running"] == 1
    assert off == {
        "name": "OFF", "check": "status", "tier": "configuration", "temporary": False,
        "found": "status of the queue offline", "wanted": "status needed online",
        "parameters": [], "lifts": ["the grid", "statistics of the queue"],
    }  # fmt: skip


def test_numbers_that_are_not_known_are_null_in_the_terms_and_nan_in_the_arrays() -> None:
    packed = ProductionJobBrokerage().decide(a_world([a_queue("A", max_rss_mb=1)]), a_request(), 1).packed()
    assert packed["terms"]["running"] == [None]
    assert json.dumps(packed["summary"], allow_nan=False)


def test_analysis_goes_to_its_data_and_to_any_queue_only_if_none_could_ever_take_it() -> None:
    world = a_world([a_queue("HAS", "H"), a_queue("NOT", "N")])
    dataset = InputDataset("d", 5, 500, (InputReplica("H_DATADISK", 5, 500),))
    request = a_request(is_analysis=True, inputs=(dataset,))
    assert AnalysisJobBrokerage().decide(world, request, 1).chosen == ("HAS",)
    offline = a_world([a_queue("HAS", "H", status=QueueStatus.OFFLINE), a_queue("NOT", "N")])
    assert AnalysisJobBrokerage().decide(offline, request, 1).chosen == ("NOT",)


def test_analysis_waits_for_its_data_if_the_reason_is_one_of_the_temporary_issues() -> None:
    full = [JobCount("HAS", "", "activated", 41)]
    world = a_world([a_queue("HAS", "H"), a_queue("NOT", "N")], jobs=full)
    dataset = InputDataset("d", 5, 500, (InputReplica("H_DATADISK", 5, 500),))
    assert AnalysisJobBrokerage().decide(world, a_request(is_analysis=True, inputs=(dataset,)), 1).chosen == ()


def test_a_merge_chunk_goes_to_its_own_queue_only() -> None:
    world = a_world([a_queue("HERE", status=QueueStatus.BROKEROFF), a_queue("THERE")])
    request = a_request(is_merge=True, preassigned=("HERE",), is_analysis=True)
    for policy in (ProductionJobBrokerage(), AnalysisJobBrokerage()):
        assert policy.decide(world, replace(request, is_analysis=policy.name == "analysis"), 1).chosen == ("HERE",)


def test_limits_come_from_runtime_parameters_and_those_of_analysis_win_for_analysis() -> None:
    parameters = Parameters()
    parameters.set_for_test("jobbroker", "RETRY_PRODUCTION_S", 5.0)
    parameters.set_for_test("jobbroker", "STORAGE_MIN_FREE_SIZE", 7)
    parameters.set_for_test("anal_jobbroker", "STORAGE_MIN_FREE_SIZE", 9.0)
    production = limits_from(parameters, vo="demo", is_analysis=False)
    assert (production.retry_production_s, production.storage_min_free_gb) == (5, 7)
    assert limits_from(parameters, vo="demo", is_analysis=True).storage_min_free_gb == 9
    assert limits_from(Parameters(), vo=None, is_analysis=False) == JobLimits()


@pytest.mark.parametrize(("value", "names"), [("A, B,", ("A", "B")), (["A"], ("A",)), (None, ()), ("", ())])
def test_names_may_come_as_a_list_or_as_text(value, names) -> None:
    assert names_in(value) == names


ROW = {
    "chunk_id": 5, "kind": "normal", "chunk_files": 10, "chunk_events": 1000, "chunk_bytes": 5000, "chunk_queue": None,
    "chunk_priority": 450, "current_priority": 450,
    "task_id": 1, "vo": "demo", "prod_source_label": "managed", "task_type": "prod",
    "processing_type": "simul", "working_group": None, "gshare": "MC", "user_name": "alice", "resource_type": "MCORE",
    "nucleus": "NUC", "site": None, "split_rule": {"nFilesPerJob": 2, "excludedSite": ["BAD"]}, "core_count": 8,
    "ram_count": 2000, "ram_unit": "MBPerCore",
}  # fmt: skip


def test_a_row_becomes_a_request() -> None:
    request = job_request(ROW, (), JobLimits(), NOW)
    assert (request.needs.core_count, request.job.n_files, request.job.n_events) == (8, 2, 200)
    assert (request.excluded, request.preassigned, request.nucleus) == (("BAD",), (), "NUC")


def test_the_chunks_own_queue_comes_before_the_tasks() -> None:
    request = job_request({**ROW, "site": "A,B", "chunk_queue": "C", "kind": "merge"}, (), JobLimits(), NOW)
    assert request.preassigned == ("C",) and request.is_merge and request.needs.core_count == 1
    assert job_request({**ROW, "site": "A,B"}, (), JobLimits(), NOW).preassigned == ("A", "B")


@pytest.mark.parametrize(
    ("cores", "chosen"),
    [(None, {"ONE"}), (0, {"ONE", "EIGHT"}), (1, {"ONE"}), (4, {"EIGHT"})],
)
def test_merge_jobs_take_the_queues_of_their_own_number_of_cores_and_any_where_it_can_vary(cores, chosen) -> None:
    row = {**ROW, "kind": "merge", "chunk_queue": None, "merge_core_count": cores, "current_priority": 950}
    world = a_world([a_queue("ONE"), a_queue("EIGHT", core_count=8, max_rss_mb=32_000)])
    decision = ProductionJobBrokerage().decide(world, job_request(row, (), JobLimits(), NOW), 1)
    assert set(decision.chosen) == chosen


def test_the_unmerged_input_of_a_merge_chunk_is_where_its_queue_is() -> None:
    unmerged = (InputDataset("unmerged", 226, 10**9),)
    merge = {**ROW, "kind": "merge", "chunk_queue": "HERE"}
    assert job_request(merge, unmerged, JobLimits(), NOW).inputs == ()
    assert job_request({**merge, "chunk_queue": None}, unmerged, JobLimits(), NOW).inputs == unmerged


def test_every_row_of_the_shipped_grid_is_either_weighed_or_explained() -> None:
    world = World.of(parse_grid(read_grid_folder(GRID), now=NOW), version=3)
    decision = ProductionJobBrokerage().decide(world, a_request(nucleus="CERN-PROD"), 1)
    assert len(decision.chosen) == 10 and decision.world_version == 3
    for name, weight in zip(decision.names, decision.weights.tolist(), strict=True):
        assert (weight > 0) == (decision.exclusion(name) is None)


class TestProductionPlugin(PluginConformance):
    group, vo, label, methods = "orrery.job_brokerage", "demo", "managed", ("decide",)

    def examples(self):
        yield "decide", (a_world([a_queue("A")], links=[Link("SITE", "N")]), a_request(nucleus="N"), 3)


class TestExamplePlugin(PluginConformance):
    group, vo, label, methods = "orrery.job_brokerage", "example", "managed", ("decide",)

    def examples(self):
        yield "decide", (a_world([a_queue("A"), a_queue("B")]), a_request(), 3)

    def test_it_is_another_policy_with_the_same_checks(self) -> None:
        world = a_world(
            [a_queue("SLOW", core_power_hs06=5.0), a_queue("FAST", core_power_hs06=20.0), a_queue("T_TEST")]
        )
        decision = ExampleJobBrokerage().decide(world, a_request(), 1)
        assert decision.chosen == ("FAST", "SLOW")
        assert decision.exclusion("T_TEST") is not None


class TestAnalysisPlugin(PluginConformance):
    group, vo, label, methods = "orrery.job_brokerage", "demo", "user", ("decide",)

    def examples(self):
        yield "decide", (a_world([a_queue("A")]), a_request(is_analysis=True), 3)


@pytest.mark.parametrize(
    ("kind", "rule", "copies"),
    [
        ("merge", {}, False),
        ("merge", {"useLocalIO": True}, True),
        ("merge", {"mergeUseLocalIO": True}, True),
        ("merge", {"useLocalIO": True, "mergeUseLocalIO": False}, False),
        ("normal", {"mergeUseLocalIO": True}, False),
    ],
)
def test_merge_jobs_copy_their_input_as_merge_spec_says_or_else_as_their_task(
    kind: str, rule: dict[str, bool], copies: bool
) -> None:
    request = job_request({**ROW, "kind": kind, "split_rule": rule}, (), JobLimits(), NOW)
    assert request.copies_to_scratch is copies
