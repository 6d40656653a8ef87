from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from services.task_brokerage.parameters import limits_from
from services.task_brokerage.policy.columns import build_nuclei, expected_output_gb
from services.task_brokerage.policy.example_vo import ExampleTaskBrokerage
from services.task_brokerage.policy.production import ProductionTaskBrokerage, nucleus_factors
from services.task_brokerage.policy.request import job_request, task_request
from shared.brokerage.limits import TaskLimits
from shared.brokerage.load import JobCount
from shared.brokerage.nucleus import RemainingWork, TaskRequest
from shared.brokerage.request import InputDataset, InputReplica
from shared.brokerage.software import SoftwareNeeds
from shared.brokerage.weights import product
from shared.brokerage.world import World
from shared.config.parameters import Parameters
from shared.model.link import Link
from shared.model.queue import QueueStatus
from shared.model.site import Site
from shared.model.units import GB_BYTES
from shared.plugins.conformance import PluginConformance
from tests.unit.brokerage.worlds import NOW, a_queue, a_request, a_storage, a_world

TB_GB = 1024.0


def nuclei_world(*names: str, **changes: Any) -> World:
    """Nuclei with one ordinary queue and 50 of 100 TB free each."""
    sites = {name: Site(name, "ACTIVE", is_nucleus=True, default_storage=f"{name}_DATADISK") for name in names}
    sites |= changes.pop("sites", {})
    return a_world(
        changes.pop("queues", [a_queue(f"Q_{name}", name) for name in names]), sites=sites.values(), **changes
    )


def a_task(**changes: Any) -> TaskRequest:
    return TaskRequest(**{"task_id": 1, "now": NOW, "job": a_request(), **changes})


def excluded_by(world: World, request: TaskRequest) -> dict[str, str | None]:
    decision = ProductionTaskBrokerage().decide(world, request, seed=1)
    found = {name: decision.exclusion(name) for name in decision.names}
    return {name: why[0].name if why else None for name, why in found.items()}


def input_at(*replicas: InputReplica, gigabytes: int = 100, files: int = 1000, **changes: Any) -> InputDataset:
    return InputDataset("d", files, gigabytes * GB_BYTES, replicas, **changes)


def copy_at(site: str, gigabytes: int, files: int, **changes: Any) -> InputReplica:
    return InputReplica(f"{site}_DATADISK", files, gigabytes * GB_BYTES, **changes)


def test_only_sites_that_are_nuclei_are_considered_and_only_active_ones_pass() -> None:
    world = nuclei_world("A", "B", sites={"B": Site("B", "DISABLED", is_nucleus=True), "C": Site("C", "ACTIVE")})
    assert excluded_by(world, a_task()) == {"A": None, "B": "nucleus_active"}


def test_a_long_transfer_backlog_excludes_a_nucleus_unless_t1_weight_is_negative() -> None:
    links = [Link("X", "A", queued_output=1500, queued_at=NOW), Link("Y", "A", queued_output=501, queued_at=NOW),
             Link("X", "B", queued_output=9999, queued_at=NOW - timedelta(hours=2))]  # fmt: skip
    world = nuclei_world("A", "B", links=links)
    assert excluded_by(world, a_task()) == {"A": "transfer_backlog", "B": None}
    assert excluded_by(world, a_task(t1_weight=-1)) == {"A": None, "B": None}


def test_a_nucleus_needs_a_storage_that_can_be_written() -> None:
    world = nuclei_world(
        "A", "B", "C",
        queues=[a_queue("Q_A", "A"), a_queue("Q_B", "B", read_storages=(), write_storages=()), a_queue("Q_C", "C")],
        sites={"B": Site("B", "ACTIVE", is_nucleus=True)},
        storages=[a_storage("C_DATADISK", "C", detailed_status={"write_wan": "OFF"})],
    )  # fmt: skip
    assert excluded_by(world, a_task()) == {"A": None, "B": "nucleus_storage", "C": "nucleus_storage_works"}


def test_space_is_free_plus_expired_less_the_output_of_existing_work() -> None:
    storages = [
        a_storage("A_DATADISK", "A", space_free_gb=5000, space_expired_gb=200),
        a_storage("B_DATADISK", "B", space_free_gb=5000, space_expired_gb=120),
    ]
    world = nuclei_world("A", "B", storages=storages)
    assert excluded_by(world, a_task()) == {"A": None, "B": "nucleus_space"}
    # 80 GB of output are a day of 320 cores of power 10
    work = {"A": RemainingWork(total_hs06_s=320 * 10 * 86_400)}
    assert expected_output_gb(320 * 10 * 86_400) == 80
    assert excluded_by(world, a_task(remaining_work=work))["A"] == "nucleus_space"


def test_the_space_threshold_may_be_set_for_a_share() -> None:
    parameters = Parameters()
    parameters.set_for_test("taskbrokerage", "DISK_THRESHOLD", 3)
    parameters.set_for_test("taskbrokerage", "DISK_THRESHOLD_MC", 1.5)
    parameters.set_for_test("taskbrokerage", "INPUT_NUM_FRACTION", 25)
    assert limits_from(parameters, vo=None, gshare="Data").disk_threshold_gb == 3 * TB_GB
    assert limits_from(parameters, vo=None, gshare="MC").disk_threshold_gb == 1.5 * TB_GB
    assert limits_from(parameters, vo=None, gshare=None).input_files_fraction == 0.25
    assert limits_from(Parameters(), vo="demo", gshare="MC") == TaskLimits()


def test_a_nucleus_must_have_a_queue_that_can_run_the_work() -> None:
    queues = [a_queue("Q_A", "A"), a_queue("Q_B", "B", max_rss_mb=10), a_queue("Q_C", "C", status=QueueStatus.OFFLINE)]
    world = nuclei_world("A", "B", "C", queues=queues)
    assert excluded_by(world, a_task()) == {"A": None, "B": "able_queue", "C": "able_queue"}


def test_large_input_must_partly_be_at_the_nucleus() -> None:
    dataset = input_at(copy_at("A", 11, 110), copy_at("B", 10, 100), copy_at("C", 20, 100))
    world = nuclei_world("A", "B", "C", "D")
    heavy = a_task(inputs=(dataset,), io_intensity_kb_s=500)
    assert excluded_by(world, heavy) == {"A": None, "B": "input_size", "C": "input_files", "D": "input_size"}


def test_with_pre_staging_an_incomplete_copy_is_enough() -> None:
    dataset = input_at(copy_at("A", 1, 10))
    request = a_task(inputs=(dataset,), io_intensity_kb_s=500, input_pre_staging=True)
    assert excluded_by(nuclei_world("A", "B"), request) == {"A": None, "B": "input_size"}


def test_secondary_input_is_ignored_if_the_task_says_so() -> None:
    secondary = input_at(copy_at("B", 100, 1000), is_master=False)
    master = input_at(copy_at("A", 100, 1000))
    world = nuclei_world("A", "B")
    both = a_task(inputs=(master, secondary), io_intensity_kb_s=500)
    assert excluded_by(world, both) == {"A": None, "B": None}
    assert excluded_by(world, replace(both, local_on_master=True)) == {"A": None, "B": "input_size"}


@pytest.mark.parametrize(
    ("changes", "waived"),
    [
        ({"io_intensity_kb_s": 200}, True),
        ({"io_intensity_kb_s": 201}, False),
        ({"io_intensity_kb_s": 201, "priority": 800}, True),
        ({"io_intensity_kb_s": 201, "priority": 799}, False),
    ],
)
def test_locality_is_waived_if_no_nucleus_passes_and_the_work_is_light_or_urgent(changes, waived) -> None:
    request = a_task(inputs=(input_at(),), **changes)
    assert excluded_by(nuclei_world("A"), request) == {"A": None if waived else "input_size"}


def test_little_input_of_few_files_has_no_locality() -> None:
    request = a_task(inputs=(input_at(gigabytes=1, files=100),), io_intensity_kb_s=500)
    assert excluded_by(nuclei_world("A"), request) == {"A": None}


def weights(world: World, request: TaskRequest) -> dict[str, float]:
    nuclei = build_nuclei(world, request)
    return dict(
        zip(
            nuclei.names,
            product(nucleus_factors(nuclei, request, np.ones(len(nuclei.names), bool))).tolist(),
            strict=True,
        )
    )


def test_the_weight_of_light_work_is_free_space_over_remaining_work() -> None:
    storages = [a_storage("A_DATADISK", "A", space_free_gb=20_000, space_expired_gb=5600, space_total_gb=102_400)]
    world = nuclei_world("A", "B", storages=storages)
    work = {"A": RemainingWork(1e9, 100.0), "B": RemainingWork(1e9, 49.0)}
    found = weights(world, a_task(remaining_work=work))
    assert found == pytest.approx({"A": 25_600 / (100 * 102_400), "B": 51_200 / (50 * 102_400)})


def test_the_weight_of_heavy_work_counts_the_local_part_of_its_input() -> None:
    dataset = input_at(copy_at("A", 25, 250))
    world = nuclei_world("A", "B")
    heavy = weights(world, a_task(inputs=(dataset,), io_intensity_kb_s=201))
    assert heavy == pytest.approx({"A": 0.25 * 0.5 / 50, "B": 0})
    light = weights(world, a_task(inputs=(dataset,), io_intensity_kb_s=200))
    assert light == pytest.approx({"A": 0.5 / 50, "B": 0.5 / 50})


def test_input_on_tape_only_costs_a_thousandth() -> None:
    dataset = input_at(copy_at("A", 100, 1000, is_tape=True))
    found = weights(nuclei_world("A", "B"), a_task(inputs=(dataset,)))
    assert found["A"] == pytest.approx(found["B"] * 0.001)


def test_the_nucleus_is_drawn_by_weight_and_the_draw_can_be_repeated() -> None:
    storages = [a_storage("A_DATADISK", "A", space_free_gb=90_000), a_storage("B_DATADISK", "B", space_free_gb=30_000)]
    world = nuclei_world("A", "B", storages=storages)
    policy = ProductionTaskBrokerage()
    drawn = [policy.decide(world, a_task(), seed).chosen for seed in range(1000)]
    assert drawn == [policy.decide(world, a_task(), seed).chosen for seed in range(1000)]
    assert drawn.count(("A",)) / 1000 == pytest.approx(0.75, abs=0.05)


def test_a_task_without_nucleus_waits_half_an_hour_and_says_why() -> None:
    world = nuclei_world("A", storages=[a_storage("A_DATADISK", "A", space_free_gb=100)])
    decision = ProductionTaskBrokerage().decide(world, a_task(), 1)
    assert decision.retry_at == NOW + timedelta(minutes=30)
    assert decision.reason() == (
        "1 nucleus, 0 passed: 1 capacity; nearest miss: A (nucleus_space: space left after existing work 100 GB, "
        "wanted: more than 5120 GB)"
    )


def test_a_grid_without_nuclei_is_a_reason() -> None:
    assert ProductionTaskBrokerage().decide(a_world([a_queue("A")]), a_task(), 1).reason() == "there are no nuclei"


def bare_world() -> World:
    """A nucleus of each kind."""
    kinds = {"NORMAL": "", "ONLY": "only", "ALLOW": "allow"}
    sites = {
        name: Site(name, "ACTIVE", is_nucleus=True, bare_nucleus=kind, default_storage=f"{name}_DATADISK")
        for name, kind in kinds.items()
    }
    return nuclei_world(*kinds, sites=sites)


@pytest.mark.parametrize(
    ("full_chain", "parent", "allowed"),
    [
        ("", None, {"NORMAL", "ALLOW"}),
        ("only", None, {"ONLY"}),
        ("require", None, {"ONLY", "ALLOW"}),
        ("capable", None, {"NORMAL", "ALLOW"}),
        ("capable", "NORMAL", {"NORMAL", "ALLOW"}),
        ("capable", "ONLY", {"ONLY"}),
        ("capable", "ALLOW", {"ALLOW"}),
        ("capable", "GONE", {"NORMAL", "ALLOW"}),
    ],
)
def test_full_chain_only_require_and_capable_choose_among_bare_nuclei(full_chain, parent, allowed) -> None:
    found = excluded_by(bare_world(), a_task(full_chain=full_chain, parent_nucleus=parent))
    assert {name for name, why in found.items() if why is None} == allowed
    assert set(found.values()) <= {None, "full_chain", "parent_nucleus"}


def test_a_rows_rules_and_parent_become_the_request() -> None:
    row = {
        "task_id": 1, "vo": "demo", "prod_source_label": "managed", "task_type": "prod", "processing_type": "simul",
        "working_group": "AP_MCGN", "gshare": "MC", "resource_type": "SCORE", "current_priority": 500,
        "split_rule": {"fullChain": "capable", "t1Weight": -1, "taskBrokerOnMaster": True, "skipScout": True},
        "architecture": "x86_64-el9-gcc13-opt", "trans_home": "Athena-1", "parent_nucleus": "BARE",
        "site": None,
    }  # fmt: skip
    request = task_request(row, job_request(row, (), (), None, NOW), (), {}, TaskLimits())
    assert (request.full_chain, request.parent_nucleus, request.t1_weight) == ("capable", "BARE", -1)
    assert request.local_on_master and not request.job.is_scout and request.job.software.release == "1"


def test_the_nucleus_must_be_able_to_run_the_tasks_scouts() -> None:
    world = nuclei_world("A", "B", queues=[a_queue("Q_A", "A", max_time_s=50_000), a_queue("Q_B", "B")])
    assert excluded_by(world, a_task(job=a_request(is_scout=True))) == {"A": "able_queue", "B": None}


def test_a_queue_that_is_only_busy_still_counts_as_able() -> None:
    world = nuclei_world("A", jobs=[JobCount("Q_A", "", "activated", 10_000)])
    assert excluded_by(world, a_task()) == {"A": None}


def test_zero_share_and_missing_software_make_a_queue_unable() -> None:
    queues = [a_queue("Q_A", "A", fair_share_policy="type=any:0"), a_queue("Q_B", "B", releases=("1.0",))]
    request = a_task(job=a_request(software=SoftwareNeeds(project="Athena", release="2.0")))
    assert set(excluded_by(nuclei_world("A", "B", queues=queues), request).values()) == {"able_queue"}


class TestProductionPlugin(PluginConformance):
    group, vo, label, methods = "orrery.task_brokerage", "demo", "managed", ("decide",)

    def examples(self):
        yield "decide", (nuclei_world("A", "B"), a_task(), 5)


class TestExamplePlugin(PluginConformance):
    group, vo, label, methods = "orrery.task_brokerage", "example", "managed", ("decide",)

    def examples(self):
        yield "decide", (nuclei_world("A", "B"), a_task(), 5)

    def test_it_does_not_look_at_the_input(self) -> None:
        request = a_task(inputs=(input_at(),), io_intensity_kb_s=900)
        assert ExampleTaskBrokerage().decide(nuclei_world("A"), request, 1).chosen == ("A",)
