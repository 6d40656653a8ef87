"""Every filter against the rule of the document, and against a scalar reference written from the document."""

from __future__ import annotations

from dataclasses import replace

import pytest

from services.job_brokerage.policy.filters import capacity, data
from services.job_brokerage.policy.production import PIPELINE
from shared.brokerage.check import Filter
from shared.brokerage.filters import capability, scope
from shared.brokerage.load import Activity, JobCount
from shared.brokerage.pipeline import Exclusions, Pipeline
from shared.brokerage.request import InputDataset, InputReplica, SmallestJob
from shared.model.link import Link
from shared.model.queue import QueueStatus, QueueType
from shared.task.needs import WorkNeeds
from tests.unit.brokerage.worlds import LIGHT, a_queue, a_request, a_storage, a_world


def passed(one: Filter, world, request) -> dict[str, bool]:
    """Label -> whether this one filter lets it pass."""
    verdict = one.decide(world, request)
    labels = world.columns.labels
    return dict.fromkeys(labels, True) if verdict is None else dict(zip(labels, verdict.passes.tolist(), strict=True))


def needing(**changes):
    return a_request(needs=replace(LIGHT, **changes))


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("online", True),
        ("standby", False),
        ("brokeroff", False),
        ("test", False),
        ("offline", False),
        ("paused", False),
    ],
)
def test_the_queue_must_be_online_unless_it_is_preassigned(status, expected) -> None:
    world = a_world([a_queue("A", status=QueueStatus(status))])
    assert passed(scope.status, world, a_request()) == {"A": expected}
    assert passed(scope.status, world, a_request(preassigned=("A",))) == {"A": True}


def test_a_standby_queue_is_used_where_slots_are_set() -> None:
    world = a_world([a_queue("A", status=QueueStatus.STANDBY)], activities=[Activity("A", n_slots=10)])
    assert passed(scope.status, world, a_request()) == {"A": True}


def test_queues_with_test_in_the_name_are_left_out_of_production_unless_named() -> None:
    world = a_world([a_queue("A_TesT_1"), a_queue("B")])
    assert passed(scope.not_a_test_queue, world, a_request()) == {"A_TesT_1": False, "B": True}
    assert passed(scope.not_a_test_queue, world, a_request(preassigned=("A_TesT_1",)))["A_TesT_1"]


def test_only_preassigned_queues_are_asked_and_unified_ones_are_resolved_to_pseudo_queues() -> None:
    world = a_world([a_queue("A", capability="ucore", core_count=8), a_queue("B")])
    found = passed(scope.preassigned, world, a_request(preassigned=("A",)))
    assert {label for label, yes in found.items() if yes} == {"A/SCORE", "A/SCORE_HIMEM", "A/MCORE", "A/MCORE_HIMEM"}


def test_included_and_excluded_sites_are_respected() -> None:
    world = a_world([a_queue("A"), a_queue("B")])
    assert passed(scope.included, world, a_request(included=("A",))) == {"A": True, "B": False}
    assert passed(scope.excluded, world, a_request(excluded=("A",))) == {"A": False, "B": True}


def test_production_and_analysis_use_queues_of_their_type_and_unified_ones() -> None:
    queues = [a_queue(one.value, type=one) for one in QueueType]
    production = passed(scope.queue_type, a_world(queues), a_request())
    analysis = passed(scope.queue_type, a_world(queues), a_request(is_analysis=True))
    assert production == {"production": True, "analysis": False, "unified": True}
    assert analysis == {"production": False, "analysis": True, "unified": True}


@pytest.mark.parametrize(
    ("task_cores", "queue_cores", "extra", "expected"),
    [
        (1, 1, {}, True), (1, 0, {}, True), (1, 8, {}, False), (1, -1, {}, True), (8, 8, {}, True), (8, 16, {}, True),
        (8, 1, {}, False), (8, -1, {}, True), (0, 1, {}, True), (0, 8, {}, True), (0, 1, {"priority": 900}, False),
        (0, 1, {"is_scout": True}, False), (0, 8, {"is_scout": True}, True),
    ],
)  # fmt: skip
def test_core_counts_match(task_cores, queue_cores, extra, expected) -> None:
    world = a_world([a_queue("A", core_count=queue_cores)])
    request = a_request(needs=replace(LIGHT, core_count=task_cores), **extra)
    assert passed(capability.core_count, world, request) == {"A": expected}


def test_a_task_may_limit_the_cores() -> None:
    world = a_world([a_queue("A", core_count=8), a_queue("B", core_count=64)])
    assert passed(capability.max_core_count, world, needing(core_count=8, max_core_count=16)) == {"A": True, "B": False}


@pytest.mark.parametrize(
    ("ram_mb", "per_core", "base_mb", "cores", "expected_mb"),
    [(2000, True, 0, 8, 14_400), (2000, True, 1000, 8, 15_300), (2000, False, 1000, 8, 2700), (1999, True, 0, 1, 1799)],
)
def test_memory_is_base_plus_ram_times_cores_and_a_tenth_less(ram_mb, per_core, base_mb, cores, expected_mb) -> None:
    world = a_world([a_queue("A", core_count=cores)])
    request = needing(core_count=cores, ram_mb=ram_mb, ram_per_core=per_core, base_ram_mb=base_mb)
    verdict = capability.memory_at_most.decide(world, request)
    assert verdict is not None and verdict.found.tolist() == [expected_mb]


def test_memory_must_lie_in_the_queues_range() -> None:
    queues = [
        a_queue("ROOMY", max_rss_mb=1800), a_queue("TIGHT", max_rss_mb=1799), a_queue("UNLIMITED", max_rss_mb=0),
        a_queue("HIMEM", max_rss_mb=8000, min_rss_mb=1801),
    ]  # fmt: skip
    world, request = a_world(queues), needing(ram_mb=2000)
    assert passed(capability.memory_at_most, world, request) == {
        "HIMEM": True,
        "ROOMY": True,
        "TIGHT": False,
        "UNLIMITED": True,
    }
    assert passed(capability.memory_at_least, world, request)["HIMEM"] is False


def test_merge_jobs_have_at_least_2000_mb() -> None:
    world = a_world([a_queue("A", max_rss_mb=1799)])
    assert passed(capability.memory_at_most, world, a_request(needs=WorkNeeds(ram_mb=0), is_merge=True)) == {"A": False}


@pytest.mark.parametrize(
    ("work_dir_mb", "direct", "copies", "expected"),
    [(1000, False, False, False), (1613, False, False, True), (1612, False, False, False), (613, True, False, True),
     (612, True, False, False), (613, True, True, False), (0, False, False, True)],
)  # fmt: skip
def test_the_work_directory_is_larger_than_input_output_and_work(work_dir_mb, direct, copies, expected) -> None:
    # 1000 MB of input (none if read directly), half a GB of output at least, 100 MB of work
    world = a_world([a_queue("A", max_work_dir_mb=work_dir_mb, direct_access_lan=direct)])
    request = a_request(
        needs=replace(LIGHT, work_dir_bytes=100 * 1024**2),
        job=SmallestJob(1, 10, 1000 * 1024**2),
        copies_to_scratch=copies,
    )
    assert passed(capability.scratch_disk, world, request) == {"A": expected}


@pytest.mark.parametrize(
    ("per_event", "per_input_mb", "expected_mb"),
    [(1024**2, 0, 2000 + 1000), (0, 1024**2 // 2, 500 + 1000), (0, 0, 512 + 1000)],
)
def test_output_scales_with_events_or_with_input_and_is_half_a_gb_at_least(
    per_event, per_input_mb, expected_mb
) -> None:
    world = a_world([a_queue("A")])
    needs = replace(LIGHT, output_bytes_per_event=per_event, output_bytes_per_input_mb=per_input_mb)
    expected = max(expected_mb, 512 + 1000)
    verdict = capability.scratch_disk.decide(world, a_request(needs=needs, job=SmallestJob(1, 2000, 1000 * 1024**2)))
    assert verdict is not None and verdict.found.tolist() == [expected]


def test_walltime_is_cpu_time_times_events_over_cores_power_and_efficiency_plus_base() -> None:
    world = a_world([a_queue("A", core_count=8, core_power_hs06=12.5)])
    request = a_request(
        needs=replace(LIGHT, core_count=8, cpu_time_hs06_s_per_event=900.0, base_walltime_s=600),
        job=SmallestJob(1, 1000, 0),
    )
    verdict = capability.walltime_at_most.decide(world, request)
    assert verdict is not None and verdict.found.tolist() == [900 * 1000 / (8 * 12.5 * 0.9) + 600]


def test_a_queue_without_core_power_counts_as_ten_hs06_and_zero_efficiency_leaves_the_base() -> None:
    world = a_world([a_queue("A", core_power_hs06=0.0)])
    plain = capability.walltime_at_most.decide(world, a_request(job=SmallestJob(1, 9, 0)))
    flat = capability.walltime_at_most.decide(world, needing(cpu_efficiency=0.0))
    assert plain is not None and plain.found.tolist() == [10 * 9 / (10 * 0.9) + 600]
    assert flat is not None and flat.found.tolist() == [600]


def test_walltime_must_lie_between_mintime_and_maxtime() -> None:
    world = a_world([a_queue("LONG", max_time_s=700), a_queue("SHORT", max_time_s=609), a_queue("MIN", min_time_s=611)])
    request = a_request(job=SmallestJob(1, 9, 0))  # 610 s
    assert passed(capability.walltime_at_most, world, request) == {"LONG": True, "MIN": True, "SHORT": False}
    assert passed(capability.walltime_at_least, world, request) == {"LONG": True, "MIN": False, "SHORT": True}


@pytest.mark.parametrize("why", [{"is_scout": True}, {"is_merge": True}, {"needs": WorkNeeds()}])
def test_scouts_merging_and_unknown_walltime_need_24_hours(why) -> None:
    world = a_world(
        [a_queue("DAY", max_time_s=86_400), a_queue("LESS", max_time_s=86_399), a_queue("ANY", max_time_s=0)]
    )
    assert passed(capability.a_day_for_scouts_and_merging, world, a_request(**why)) == {
        "DAY": True,
        "LESS": False,
        "ANY": True,
    }
    assert passed(capability.a_day_for_scouts_and_merging, world, a_request())["LESS"] is True


@pytest.mark.parametrize(
    ("task", "accepting"),
    [
        ("full", {"full"}),
        ("http", {"full", "http"}),
        ("none", {"full", "http", "none"}),
        ("", {"full", "http", "none"}),
    ],
)
def test_network_connectivity_of_the_queue_must_be_enough(task, accepting) -> None:
    world = a_world([a_queue(one, connectivity=one) for one in ("full", "http", "none")])
    found = passed(capability.connectivity, world, needing(connectivity=task))
    assert {queue for queue, yes in found.items() if yes} == accepting


def test_the_ip_stack_must_be_the_one_that_the_task_asks_for() -> None:
    world = a_world([a_queue("V4", ip_stack="IPv4"), a_queue("V6", ip_stack="IPv6"), a_queue("UNSET")])
    assert passed(capability.ip_stack, world, needing(ip_stack="IPv6")) == {"V4": False, "V6": True, "UNSET": False}
    assert all(passed(capability.ip_stack, world, needing()).values())


def test_the_output_storage_needs_more_than_200_gb_of_usable_space() -> None:
    queues = [a_queue("FULL", "F"), a_queue("ROOMY", "R")]
    storages = [
        a_storage("F_DATADISK", "F", space_free_gb=150, space_expired_gb=100, space_min_free_gb=50),
        a_storage("R_DATADISK", "R", space_free_gb=150, space_expired_gb=100, space_min_free_gb=49),
    ]
    assert passed(data.free_space, a_world(queues, storages=storages), a_request()) == {"FULL": False, "ROOMY": True}


def test_blacklisted_storages_and_storages_in_a_down_time_are_left_out() -> None:
    queues = [a_queue("BLACK", "B"), a_queue("DOWN", "D"), a_queue("GOOD", "G")]
    storages = [
        a_storage("B_DATADISK", "B", blacklisted_write=True),
        a_storage("D_DATADISK", "D", detailed_status={"write_lan": "OFF", "read_lan": "TEST"}),
    ]
    world = a_world(queues, storages=storages)
    assert passed(data.write_storage_works, world, a_request()) == {"BLACK": False, "DOWN": False, "GOOD": True}
    with_input = a_request(inputs=(InputDataset("d", 1, 1),))
    assert passed(data.read_storage_works, world, with_input) == {"BLACK": True, "DOWN": False, "GOOD": True}


def test_a_queue_without_storage_is_a_reason_and_no_exception() -> None:
    world = a_world([a_queue("A", read_storages=(), write_storages=())])
    exclusions = PIPELINE.run(world, a_request())
    assert exclusions.checks[int(exclusions.codes[0])].name == "output_storage"


def test_blocked_links_to_the_nucleus_are_left_out() -> None:
    world = a_world(
        [a_queue("A", "SA"), a_queue("B", "SB"), a_queue("N", "NUC")],
        links=[Link("SA", "NUC", closeness=-1), Link("SB", "NUC", closeness=11), Link("NUC", "NUC", closeness=-1)],
    )
    assert passed(data.link_is_open, world, a_request(nucleus="NUC")) == {"A": False, "B": True, "N": True}


def test_analysis_goes_to_its_data() -> None:
    world = a_world([a_queue("HAS", "H"), a_queue("PART", "P"), a_queue("NOT", "N")])
    dataset = InputDataset("d", 10, 1000, (InputReplica("H_DATADISK", 10, 1000), InputReplica("P_DATADISK", 9, 900)))
    request = a_request(is_analysis=True, inputs=(dataset,))
    assert passed(data.input_is_local, world, request) == {"HAS": True, "NOT": False, "PART": False}
    assert all(passed(data.input_is_local, world, replace(request, priority=2000)).values())


def test_files_on_tape_are_not_at_hand() -> None:
    world = a_world([a_queue("A", "S", read_storages=("S_TAPE",))], storages=[a_storage("S_TAPE", "S", is_tape=True)])
    dataset = InputDataset("d", 10, 1000, (InputReplica("S_TAPE", 10, 1000, is_tape=True),))
    assert passed(data.input_is_local, world, a_request(is_analysis=True, inputs=(dataset,))) == {"A": False}


@pytest.mark.parametrize(
    ("limit", "running", "transferring", "expected"),
    [(0, 0, 2000, True), (0, 0, 2001, False), (0, 1500, 3000, True), (0, 1500, 3001, False), (100, 10, 101, False)],
)
def test_too_many_transferring_jobs_exclude_a_queue(limit, running, transferring, expected) -> None:
    jobs = [JobCount("A", "", "running", running), JobCount("A", "", "transferring", transferring)]
    world = a_world([a_queue("A", transferring_limit=limit)], jobs=jobs)
    assert passed(capacity.transferring, world, a_request()) == {"A": expected}


def test_the_first_filter_that_excludes_a_queue_is_remembered_with_its_numbers() -> None:
    world = a_world([a_queue("A", core_count=8, max_rss_mb=10), a_queue("B", max_rss_mb=10), a_queue("C")])
    exclusions = Pipeline((capability.core_count, capability.memory_at_most)).run(world, a_request())
    names = [exclusions.checks[code].name if code else None for code in exclusions.codes.tolist()]
    assert names == ["core_count", "memory_too_large", None]
    assert (exclusions.found[0], exclusions.wanted[0]) == (8, 1)
    assert (exclusions.found[1], exclusions.wanted[1]) == (900, 10)


def test_temporary_filters_can_be_left_out_to_ask_whether_work_could_ever_run() -> None:
    world = a_world([a_queue("A", "S")], storages=[a_storage("S_DATADISK", "S", space_free_gb=1)])
    exclusions = PIPELINE.run(world, a_request())
    assert not exclusions.alive.any() and all(exclusions.checks[code].temporary for code in exclusions.codes.tolist())
    assert PIPELINE.run(world, a_request(), persistent_only=True).alive.all()


def test_two_checks_may_not_share_a_number() -> None:
    other = replace(capability.core_count, check=replace(capability.CORE_COUNT, name="another"))
    with pytest.raises(ValueError, match="share number 100"):
        Pipeline((capability.core_count, other))


def test_an_empty_grid_excludes_nothing_and_has_nothing() -> None:
    assert isinstance(PIPELINE.run(a_world([]), a_request(nucleus="N")), Exclusions)
