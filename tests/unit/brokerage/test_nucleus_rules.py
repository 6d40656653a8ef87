"""Production task brokerage: thresholds, waiver and weight of the document, on both sides of each number."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from services.task_brokerage.policy.production import ProductionTaskBrokerage
from services.task_brokerage.policy.request import job_request, task_request
from shared.brokerage.limits import TaskLimits
from shared.brokerage.nucleus import RemainingWork
from shared.brokerage.request import InputDataset, InputReplica
from shared.model.site import Site
from shared.model.units import GB_BYTES
from tests.unit.brokerage.test_task_brokerage import (
    a_task,
    copy_at,
    excluded_by,
    input_at,
    nuclei_world,
    weights,
)
from tests.unit.brokerage.worlds import NOW, a_queue, a_storage

LIMITS = TaskLimits()


@pytest.mark.parametrize(
    ("n_bytes", "files", "check"),
    [
        (GB_BYTES, 100, None), (GB_BYTES + 1, 100, "input_size"),  # INPUT_SIZE_THRESHOLD
        (GB_BYTES, 101, "input_files"),  # INPUT_NUM_THRESHOLD
    ],
)  # fmt: skip
def test_locality_is_asked_above_input_size_threshold_and_above_input_num_threshold(n_bytes, files, check) -> None:
    heavy = a_task(inputs=(InputDataset("d", files, n_bytes),), io_intensity_kb_s=201.0)
    assert excluded_by(nuclei_world("A"), heavy) == {"A": check}


@pytest.mark.parametrize(
    ("gigabytes", "io_intensity", "priority", "waived"),
    [
        (10_000, 200.0, 0, True),
        (10_001, 200.0, 0, False),  # MIN_INPUT_SIZE_WITH_LOCAL_DATA
        (10_000, 200.1, 0, False),  # MIN_IO_INTENSITY_WITH_LOCAL_DATA
        (10_001, 200.1, 800, True),  # MAX_TASK_PRIO_WITH_LOCAL_DATA
        (10_001, 200.1, 799, False),
    ],
)
def test_the_whole_locality_check_is_disabled_if_no_nucleus_passes_and_the_task_may_do_without(
    gigabytes, io_intensity, priority, waived
) -> None:
    request = a_task(
        inputs=(input_at(gigabytes=gigabytes, files=1000),), io_intensity_kb_s=io_intensity, priority=priority
    )
    assert excluded_by(nuclei_world("A", "B"), request) == dict.fromkeys("AB", None if waived else "input_size")


_IO = "ioIntensity 200.1 kB/s is above MIN_IO_INTENSITY_WITH_LOCAL_DATA 200"
_SIZE = "input of 10001 GB is above MIN_INPUT_SIZE_WITH_LOCAL_DATA 10000"
_PRIORITY = "priority 799 is below MAX_TASK_PRIO_WITH_LOCAL_DATA 800"


@pytest.mark.parametrize(
    ("gigabytes", "io_intensity", "priority", "told"),
    [
        (10_000, 200.0, 799, []), (10_001, 200.1, 800, []), (10_001, 200.0, 799, [_SIZE, _PRIORITY]),
        (10_000, 200.1, 799, [_IO, _PRIORITY]), (10_001, 200.1, 799, [_IO, _SIZE, _PRIORITY]),
    ],
)  # fmt: skip
def test_the_decision_says_which_limits_keep_locality_from_being_waived(
    gigabytes, io_intensity, priority, told
) -> None:
    request = a_task(
        inputs=(input_at(gigabytes=gigabytes, files=1000),), io_intensity_kb_s=io_intensity, priority=priority
    )
    decision = ProductionTaskBrokerage().decide(nuclei_world("A", "B"), request, 1)
    note = f"data locality is not waived: {', '.join(told)}"
    assert decision.summary().get("notes", []) == ([note] if told else [])
    assert decision.reason().endswith(f"; {note}") is bool(told)


def test_a_waiver_is_not_spoken_of_where_it_would_not_help_or_was_not_needed() -> None:
    heavy = a_task(inputs=(input_at(copy_at("A", 100, 1000)),), io_intensity_kb_s=201.0)
    taken = ProductionTaskBrokerage().decide(nuclei_world("A", "B"), heavy, 1)
    full = [a_storage(f"{site}_DATADISK", site, space_free_gb=1) for site in "AB"]
    refused = ProductionTaskBrokerage().decide(nuclei_world("A", "B", storages=full), heavy, 1)
    assert taken.chosen and not refused.chosen
    assert taken.notes == refused.notes == ()


def test_while_one_nucleus_passes_locality_is_not_waived_for_the_others() -> None:
    light = a_task(inputs=(input_at(copy_at("A", 100, 1000)),), io_intensity_kb_s=0.0, priority=999)
    assert excluded_by(nuclei_world("A", "B"), light) == {"A": None, "B": "input_size"}


def test_a_waiver_of_locality_waives_nothing_else() -> None:
    storages = [a_storage("B_DATADISK", "B", space_free_gb=1)]
    light = a_task(inputs=(input_at(),))
    assert excluded_by(nuclei_world("A", "B", storages=storages), light) == {"A": None, "B": "nucleus_space"}


@pytest.mark.parametrize(
    ("copy", "check"),
    [(copy_at("A", 100, 1), None), (copy_at("A", 1, 1000), None), (copy_at("A", 0, 0), "input_size")],
)
def test_input_pre_staging_ignores_the_rules_of_size_and_files_where_some_input_is(copy, check) -> None:
    request = a_task(inputs=(input_at(copy),), io_intensity_kb_s=201.0, input_pre_staging=True)
    assert excluded_by(nuclei_world("A"), request) == {"A": check}
    without = replace(request, input_pre_staging=False)
    assert excluded_by(nuclei_world("A"), without)["A"] is not None


@pytest.mark.parametrize(("rules", "master_only"), [({}, False), ({"taskBrokerOnMaster": False}, False),
                                                    ({"taskBrokerOnMaster": True}, True)])  # fmt: skip
def test_all_input_datasets_are_considered_unless_task_broker_on_master_is_set(rules, master_only) -> None:
    row = {
        "task_id": 1, "vo": None, "prod_source_label": "managed", "task_type": "prod", "processing_type": None,
        "working_group": None, "gshare": "MC", "resource_type": "SCORE", "current_priority": 1, "split_rule": rules,
        "site": None,
    }  # fmt: skip
    inputs = (input_at(copy_at("A", 1, 1)), replace(input_at(copy_at("B", 1, 1)), is_master=False))
    request = task_request(row, job_request(row, (), inputs, None, NOW), inputs, {}, LIMITS)
    assert [one.is_master for one in request.inputs_for_locality] == ([True] if master_only else [True, False])


@pytest.mark.parametrize(("work", "offset"), [(0.0, 50.0), (50.0, 50.0), (51.0, 51.0)])
def test_the_weight_divides_by_rw_but_at_least_by_rw_offset(work, offset) -> None:
    request = a_task(remaining_work={"A": RemainingWork(1e9, work)})
    assert weights(nuclei_world("A"), request)["A"] == pytest.approx(51_200 / (offset * 102_400))


def test_the_weight_of_io_intensive_work_has_every_term_of_the_formula() -> None:
    """(30 GB x 0.001 x (20000 + 600)) / (max(50, 80) x 120 GB x 100000)."""
    storages = [
        a_storage("A_DATADISK", "A", space_free_gb=20_000, space_expired_gb=600, space_total_gb=100_000),
    ]
    request = a_task(
        inputs=(input_at(copy_at("A", 30, 300, is_tape=True), gigabytes=120),),
        io_intensity_kb_s=201.0,
        remaining_work={"A": RemainingWork(0.0, 80.0)},
    )
    expected = (30 * 0.001 * (20_000 + 600)) / (80 * 120 * 100_000)
    assert weights(nuclei_world("A", storages=storages), request)["A"] == pytest.approx(expected)


def test_where_no_nucleus_that_passes_has_any_input_space_and_work_decide() -> None:
    """ioIntensity is above its limit, but locality was waived for the priority: all weights would be 0."""
    storages = [a_storage("A_DATADISK", "A", space_free_gb=10_240), a_storage("B_DATADISK", "B", space_free_gb=51_200)]
    urgent = a_task(
        inputs=(input_at(),), io_intensity_kb_s=201.0, priority=800, remaining_work={"A": RemainingWork(0.0, 100.0)}
    )
    decision = ProductionTaskBrokerage().decide(nuclei_world("A", "B", storages=storages), urgent, 1)
    assert decision.weights.tolist() == pytest.approx([0.1 / 100, 0.5 / 50])
    assert "local_input" not in decision.terms
    drawn = [
        ProductionTaskBrokerage().decide(nuclei_world("A", "B", storages=storages), urgent, seed).chosen[0]
        for seed in range(200)
    ]
    assert drawn.count("B") > 150, "ten times the weight"


def test_what_excluded_nuclei_have_of_the_input_does_not_count_for_those_that_pass() -> None:
    offline = {"B": Site("B", "DISABLED", is_nucleus=True, default_storage="B_DATADISK")}
    urgent = a_task(inputs=(input_at(copy_at("B", 100, 1000)),), io_intensity_kb_s=201.0, priority=800)
    decision = ProductionTaskBrokerage().decide(nuclei_world("A", "B", sites=offline), urgent, 1)
    assert decision.weights.tolist() == pytest.approx([0.5 / 50, 0.0]) and decision.chosen == ("A",)


def test_where_one_nucleus_that_passes_has_input_those_without_weigh_nothing() -> None:
    request = a_task(inputs=(input_at(copy_at("A", 1, 1), gigabytes=1, files=1),), io_intensity_kb_s=201.0)
    decision = ProductionTaskBrokerage().decide(nuclei_world("A", "B"), request, 1)
    assert decision.weights.tolist() == pytest.approx([0.5 / 50, 0.0]) and decision.chosen == ("A",)


def test_tape_weight_is_one_if_the_input_is_on_disk_too() -> None:
    both = input_at(InputReplica("A_TAPE", 1000, 100 * GB_BYTES, is_tape=True), copy_at("A", 100, 1000))
    world = nuclei_world("A", storages=[a_storage("A_TAPE", "A", type="DATATAPE", is_tape=True)])
    assert weights(world, a_task(inputs=(both,)))["A"] == pytest.approx(0.5 / 50)


@pytest.mark.parametrize(("on_disk_gb", "files", "weight"), [(99, 1000, 0.001), (100, 999, 0.001), (100, 1000, 1.0)])
def test_tape_weight_counts_where_any_local_input_is_on_tape_only(on_disk_gb, files, weight) -> None:
    copies = input_at(InputReplica("A_TAPE", 1000, 100 * GB_BYTES, is_tape=True), copy_at("A", on_disk_gb, files))
    other = InputDataset("other", 1, GB_BYTES, (copy_at("A", 1, 1),))
    world = nuclei_world("A", storages=[a_storage("A_TAPE", "A", type="DATATAPE", is_tape=True)])
    decision = ProductionTaskBrokerage().decide(world, a_task(inputs=(copies, other)), 1)
    assert decision.chosen == ("A",) and decision.terms["tape"].tolist() == [weight]


def test_if_all_nuclei_are_skipped_the_task_is_tried_again_after_30_minutes() -> None:
    world = nuclei_world("A", queues=[a_queue("Q_A", "A", max_rss_mb=1)])
    decision = ProductionTaskBrokerage().decide(world, a_task(), 1)
    assert decision.outcome == "none" and decision.retry_at == NOW + timedelta(minutes=30)
