"""Every rule of analysis job brokerage, named after it, on small worlds."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from scipy.stats import t as student_t

from services.job_brokerage.policy.analysis import AnalysisJobBrokerage
from shared.brokerage.analysis_facts import (
    AnalysisFacts,
    AnalysisInput,
    AnalysisLimits,
    TaskFacts,
    UsageRows,
    percent_of_shares,
)
from shared.brokerage.analysis_weights import EPSILON_1, EPSILON_2, queue_length_weight, site_class_weight
from shared.brokerage.classes import (
    CLASS_A,
    CLASS_B,
    CLASS_C,
    CLASS_S,
    HI,
    LO,
    MID,
    SiteWaits,
    TaskProgress,
    classify_sites,
    classify_task,
    wait_metrics,
)
from shared.brokerage.decision import Decision
from shared.brokerage.load import Activity, JobCount
from shared.brokerage.request import InputDataset, JobRequest, Replica
from shared.brokerage.stabilizer import affordable_queue, max_user_queue, may_be_throttled, user_percentage
from shared.brokerage.world import World
from shared.model.needs import WorkNeeds
from shared.model.queue import QueueStatus, QueueType
from shared.model.world_file import GroupUsage, JobsCounted, Outcomes, QueueHistory, UserUsage, Waits
from tests.unit.brokerage.worlds import LIGHT, NOW, a_queue, a_request, a_storage, a_world

SHARE = "User Analysis"


def counted(queue: str, status: str, n_jobs: int, user: str = "alice", gshare: str = SHARE) -> JobsCounted:
    return JobsCounted(
        queue=queue, resource_type="SCORE", gshare=gshare, user_name=user, status=status, n_jobs=n_jobs, n_cores=n_jobs
    )


def outcome(queue: str, hours_ago: float = 1, **numbers: int) -> Outcomes:
    return Outcomes(hour=NOW - timedelta(hours=hours_ago), queue=queue, gshare=SHARE, task_id=1, **numbers)


def an_analysis(
    *, rows: UsageRows | None = None, limits: dict[str, Any] | None = None, task: dict[str, Any] | None = None,
    **changes: Any,
) -> JobRequest:  # fmt: skip
    """A request of alice's task 1 in User Analysis."""
    facts = TaskFacts(**{"task_id": 1, "user_name": "alice", "working_group": "", "gshare": SHARE, **(task or {})})
    given = AnalysisInput(facts, AnalysisLimits(**(limits or {})), rows or UsageRows())
    return a_request(
        **{"is_analysis": True, "label": "user", "gshare": SHARE, "user_name": "alice", "analysis": given, **changes}
    )


def decided(world: World, request: JobRequest) -> Decision:
    return AnalysisJobBrokerage().decide(world, request, 1)


def left_out(decision: Decision, name: str) -> str | None:
    found = decision.exclusion(f"{name}/SCORE" if f"{name}/SCORE" in decision.names else name)
    return None if found is None else found[0].name


def two_queues(**load: Any) -> World:
    return a_world([a_queue("Q_A", "A"), a_queue("Q_B", "B")], **load)


def at(*storages: str, n_files: int = 2) -> tuple[InputDataset, ...]:
    return (InputDataset("data", n_files, 2000, tuple(Replica(one, n_files, 2000) for one in storages)),)


def facts_of(world: World, request: JobRequest) -> AnalysisFacts:
    facts = request.analysis_facts(world.columns)
    assert facts is not None
    return facts


# -- throttles -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "n_jobs", "limits", "check"),
    [
        ("running", 11, {"running_jobs_cap": 10}, "user_running_jobs"),
        ("activated", 21, {"running_jobs_cap": 10}, "user_queued_jobs"),
        ("running", 11, {"running_cores_cap": 10}, "user_running_cores"),
        ("defined", 21, {"running_cores_cap": 10}, "user_queued_cores"),
    ],
)
def test_a_user_above_a_cap_gets_no_jobs_anywhere_and_at_the_cap_does(status, n_jobs, limits, check) -> None:
    world = two_queues()
    above = an_analysis(rows=UsageRows([counted("ELSEWHERE", status, n_jobs)]), limits=limits)
    decision = decided(world, above)
    assert decision.chosen == () and decision.summary()["checks"] == {check: len(decision.names)}
    assert decision.retry_at == NOW + timedelta(minutes=20)
    exactly = an_analysis(rows=UsageRows([counted("ELSEWHERE", status, n_jobs - 1)]), limits=limits)
    assert decided(world, exactly).chosen


def test_a_task_of_a_working_group_is_held_by_the_usage_of_the_group_and_not_of_the_user() -> None:
    groups = {"phys": GroupUsage(running_jobs=11)}
    rows = UsageRows([counted("ELSEWHERE", "running", 500)], groups=groups)
    limits = {"running_jobs_cap": 10}
    assert not decided(two_queues(), an_analysis(rows=rows, limits=limits, task={"working_group": "phys"})).chosen
    assert decided(two_queues(), an_analysis(rows=rows, limits=limits, task={"working_group": "other"})).chosen


def test_without_caps_nobody_is_held() -> None:
    assert decided(two_queues(), an_analysis(rows=UsageRows([counted("ELSEWHERE", "running", 10**6)]))).chosen


def test_a_user_above_the_global_disk_quota_gets_no_jobs() -> None:
    for used, allowed in ((101.0, False), (100.0, True)):
        rows = UsageRows(users={"alice": UserUsage(disk_quota_gb=100, disk_used_gb=used)})
        decision = decided(two_queues(), an_analysis(rows=rows))
        assert bool(decision.chosen) is allowed
        assert allowed or set(decision.summary()["checks"]) == {"disk_quota"}


def classified(slots_hi: int, slots_mid: int, user_share: int, others: int, due: float = 50.0) -> UsageRows:
    """alice has so many slots in a hi and in a mid site; User Analysis and the rest run so much in all."""
    rest = user_share - slots_hi - slots_mid
    statistics = [
        counted("HI", "running", slots_hi), counted("MID", "running", slots_mid),
        counted("MID", "running", rest, user="bob"), counted("X", "running", others, gshare="Production"),
    ]  # fmt: skip
    hour = NOW - timedelta(hours=1)
    waits = [
        Waits(hour=hour, queue="HI", gshare=SHARE, job_type="merge", n_jobs=9, wait_s=90, wait_squared_s2=900),
        Waits(hour=hour, queue="MID", gshare=SHARE, job_type="merge", n_jobs=9, wait_s=65000, wait_squared_s2=5e8),
    ]
    history = QueueHistory(outcomes=[outcome("HI", n_started=1), outcome("MID", n_started=1)], waits=waits)
    return UsageRows(statistics, history, {SHARE: due})


@pytest.mark.parametrize(
    ("slots_hi", "slots_mid", "usage_percent", "runs"),
    [
        (1000, 7000, 91, False), (1000, 7000, 90, True),  # class C
        (1000, 0, 96, False), (1000, 0, 95, True),  # class B
        (500, 0, 201, False), (500, 0, 199, True),  # class A: max(1000 / 500, 1) x 100 %
        (0, 0, 200, True),
    ],
)  # fmt: skip
def test_user_analysis_above_its_target_holds_the_lower_classes_first(slots_hi, slots_mid, usage_percent, runs) -> None:
    total = 20_000
    user_share = round(total * 0.5 * usage_percent / 100)
    rows = classified(slots_hi, slots_mid, user_share, total - user_share)
    decision = decided(two_queues(), an_analysis(rows=rows))
    assert bool(decision.chosen) is runs
    assert runs or set(decision.summary()["checks"]) == {"share_usage"}


def test_other_shares_are_immune_to_the_usage_of_user_analysis() -> None:
    rows = classified(1000, 7000, 19_000, 1000)
    request = an_analysis(rows=rows, task={"gshare": "Group Analysis"}, gshare="Group Analysis")
    assert decided(two_queues(), request).chosen


# -- candidates and persistent filters -------------------------------------------------------------------------------


def test_candidates_are_analysis_and_unified_queues() -> None:
    world = a_world([
        a_queue("Q_A", "A", type=QueueType.ANALYSIS), a_queue("Q_P", "P", type=QueueType.PRODUCTION),
        a_queue("Q_U", "U"),
    ])  # fmt: skip
    decision = decided(world, an_analysis())
    assert left_out(decision, "Q_P") == "queue_type"
    assert {one.queue for one in decision.candidates} == {"Q_A", "Q_U"}


def test_excluded_sites_are_left_out_and_of_included_sites_only_those_are_taken() -> None:
    world = two_queues()
    assert left_out(decided(world, an_analysis(excluded=("Q_A",))), "Q_A") == "excluded_sites"
    assert left_out(decided(world, an_analysis(included=("Q_A",))), "Q_B") == "included_sites"


def test_the_queue_must_be_online_unless_it_is_preassigned() -> None:
    world = a_world([a_queue("Q_A", "A", status=QueueStatus.TEST), a_queue("Q_B", "B")])
    assert left_out(decided(world, an_analysis()), "Q_A") == "status"
    assert [one.queue for one in decided(world, an_analysis(preassigned=("Q_A",))).candidates] == ["Q_A"]


def test_queues_without_the_input_are_left_out() -> None:
    decision = decided(two_queues(), an_analysis(inputs=at("A_DATADISK")))
    assert left_out(decision, "Q_B") == "input_locality" and left_out(decision, "Q_A") is None


def test_locality_does_not_matter_at_priority_2000_or_low_io_intensity() -> None:
    assert left_out(decided(two_queues(), an_analysis(inputs=at("A_DATADISK"), priority=2000)), "Q_B") is None
    quiet = an_analysis(inputs=at("A_DATADISK"))
    limits = replace(quiet.limits, io_intensity_cutoff_user_kb_s=100.0)
    assert left_out(decided(two_queues(), replace(quiet, limits=limits)), "Q_B") is None


def test_when_all_are_left_out_for_persistent_reasons_the_second_pass_does_not_ask_for_locality() -> None:
    world = a_world([a_queue("Q_A", "A", status=QueueStatus.OFFLINE), a_queue("Q_B", "B")])
    assert [one.queue for one in decided(world, an_analysis(inputs=at("A_DATADISK"))).candidates] == ["Q_B"]


def test_when_the_data_queue_is_only_full_for_now_the_task_waits_20_minutes() -> None:
    jobs = [JobCount("Q_A", "SCORE", "activated", 41)]
    decision = decided(two_queues(jobs=jobs), an_analysis(inputs=at("A_DATADISK")))
    assert decision.chosen == () and decision.retry_at == NOW + timedelta(minutes=20)
    assert (left_out(decision, "Q_A"), left_out(decision, "Q_B")) == ("long_queue", "input_locality")


def test_disk_io_above_the_limit_of_a_queue_that_is_above_it_is_left_out() -> None:
    world = a_world(
        [a_queue("Q_A", "A", max_disk_io_kb_s=100), a_queue("Q_B", "B")],
        activities=[Activity("Q_A", mean_disk_io_kb_s_per_core=200.0), Activity("Q_B")],
    )
    decision = decided(world, an_analysis(needs=replace(LIGHT, disk_io_kb_s=500.0)))
    assert left_out(decision, "Q_A") == "disk_io" and left_out(decision, "Q_B") is None


def test_core_counts_must_match() -> None:
    world = a_world([
        a_queue("Q_A", "A", type=QueueType.ANALYSIS, core_count=8), a_queue("Q_B", "B", type=QueueType.ANALYSIS),
    ])  # fmt: skip
    assert left_out(decided(world, an_analysis()), "Q_A") == "core_count"


def test_vp_queues_are_left_out_if_the_task_avoids_them_or_they_are_overloaded() -> None:
    def world(queued: int) -> World:
        jobs = [JobCount("Q_A", "SCORE", "activated", queued), JobCount("Q_A", "SCORE", "running", 15)]
        jobs += [JobCount("Q_B", "SCORE", "running", 100)]
        return a_world([a_queue("Q_A", "A", options={"use_vp": "true"}), a_queue("Q_B", "B")], jobs=jobs)

    assert left_out(decided(world(0), an_analysis(task={"avoid_vp": True})), "Q_A") == "avoid_vp"
    assert left_out(decided(world(20), an_analysis()), "Q_A") is None
    assert left_out(decided(world(21), an_analysis()), "Q_A") == "vp_overloaded"


def test_estimated_memory_times_compensation_must_be_within_the_range_of_the_queue() -> None:
    world = a_world([
        a_queue("Q_LOW", "A", type=QueueType.ANALYSIS, max_rss_mb=1799),
        a_queue("Q_FIT", "B", type=QueueType.ANALYSIS, max_rss_mb=1800, min_rss_mb=1800),
        a_queue("Q_HIGH", "C", type=QueueType.ANALYSIS, max_rss_mb=9000, min_rss_mb=1801),
    ])  # fmt: skip
    decision = decided(world, an_analysis(needs=WorkNeeds(ram_mb=1500, ram_per_core=True, base_ram_mb=500)))
    assert left_out(decision, "Q_LOW") == "memory_too_large"
    assert left_out(decision, "Q_FIT") is None
    assert left_out(decision, "Q_HIGH") == "memory_too_small"


def test_output_needs_200_gb_of_free_space_and_a_storage_that_is_not_blacklisted() -> None:
    storages = [
        a_storage("A_DATADISK", "A", space_free_gb=200.0), a_storage("B_DATADISK", "B", blacklisted_write=True),
        a_storage("C_DATADISK", "C", space_free_gb=201.0),
    ]  # fmt: skip
    world = a_world([a_queue(f"Q_{site}", site) for site in "ABC"], storages=storages)
    decision = decided(world, an_analysis())
    assert left_out(decision, "Q_A") == "free_space"
    assert left_out(decision, "Q_B") == "write_storage"
    assert left_out(decision, "Q_C") is None


def test_queues_without_pilots_for_three_hours_are_left_out() -> None:
    old, fresh = NOW - timedelta(hours=3, seconds=1), NOW - timedelta(hours=2)
    long_ago = NOW - timedelta(days=9)
    world = two_queues(activities=[
        Activity("Q_A", last_pilot_at=old, known_since=long_ago),
        Activity("Q_B", last_pilot_at=fresh, known_since=long_ago),
    ])  # fmt: skip
    decision = decided(world, an_analysis())
    assert left_out(decision, "Q_A") == "pilots" and left_out(decision, "Q_B") is None


# -- temporary filters -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("finished", "failed", "closed", "check"),
    [(0, 2, 2, None), (0, 3, 2, "bad_jobs"), (3, 3, 2, None), (3, 4, 2, "bad_jobs")],
)
def test_queues_where_many_jobs_of_the_task_failed_or_were_closed_are_left_out(finished, failed, closed, check) -> None:
    history = QueueHistory(outcomes=[
        outcome("Q_A", n_finished=finished, n_failed=failed, n_closed=closed), outcome("Q_B", 7, n_failed=99),
    ])  # fmt: skip
    decision = decided(two_queues(), an_analysis(rows=UsageRows(history=history)))
    assert left_out(decision, "Q_A") == check
    assert left_out(decision, "Q_B") is None  # longer ago than TW_DONE_JOB_STAT


@pytest.mark.parametrize(("running", "queued", "check"), [(0, 40, None), (0, 41, "long_queue"), (30, 60, None)])
def test_queues_with_more_than_twice_as_many_queued_as_running_jobs_are_left_out(running, queued, check) -> None:
    jobs = [JobCount("Q_A", "SCORE", "running", running), JobCount("Q_A", "SCORE", "starting", queued)]
    assert left_out(decided(two_queues(jobs=jobs), an_analysis()), "Q_A") == check


def test_a_user_with_too_many_queued_jobs_at_a_queue_gets_no_more_there() -> None:
    rows, limits = UsageRows([counted("Q_A", "activated", 8)]), {"user_queued_jobs_cap": 7}
    assert left_out(decided(two_queues(), an_analysis(rows=rows, limits=limits)), "Q_A") == "user_queue"


def test_a_task_that_has_used_its_number_of_sites_stays_there() -> None:
    used = {"queues_used": frozenset({"Q_A"})}
    request = an_analysis(task=used, limits={"max_sites_of_task": 1})
    assert left_out(decided(two_queues(), request), "Q_B") == "sites_of_task"
    assert left_out(decided(two_queues(), an_analysis(task=used, limits={"max_sites_of_task": 2})), "Q_B") is None


# -- Analysis Stabilizer ---------------------------------------------------------------------------------------------


def stabilized(queued: int, running: int, mine: int = 0, mine_running: int = 0, started_6h: int = 0) -> AnalysisFacts:
    rows = UsageRows(
        [
            counted("Q_A", "activated", queued - mine, user="bob"), counted("Q_A", "activated", mine),
            counted("Q_A", "running", running - mine_running, user="bob"), counted("Q_A", "running", mine_running),
        ],
        QueueHistory(outcomes=[outcome("Q_A", n_started=started_6h)]),
    )  # fmt: skip
    return facts_of(two_queues(), an_analysis(rows=rows))


@pytest.mark.parametrize(
    ("queued", "started_6h", "throttled"), [(99, 0, False), (100, 0, True), (100, 76, False), (110, 60, True)]
)
def test_a_queue_with_few_queued_jobs_or_a_short_expected_wait_is_not_throttled(queued, started_6h, throttled) -> None:
    assert may_be_throttled(stabilized(queued, 0, started_6h=started_6h))[0] == throttled


@pytest.mark.parametrize(
    ("running", "started_6h", "longest"), [(10, 0, 100), (60, 0, 120), (60, 66, 132)]
)  # fmt: skip
def test_the_affordable_queue_is_the_largest_of_base_ratio_and_expected_wait(running, started_6h, longest) -> None:
    assert affordable_queue(stabilized(0, running, started_6h=started_6h))[0] == pytest.approx(longest)


def test_the_users_percentage_is_that_of_running_jobs_or_of_one_user_among_all() -> None:
    assert user_percentage(stabilized(10, 100, mine=1, mine_running=80))[0] == pytest.approx(0.8)
    assert user_percentage(stabilized(10, 100, mine=1, mine_running=10))[0] == pytest.approx(0.5)


def test_the_users_longest_queue_is_the_largest_of_base_ratio_and_his_part_of_the_affordable_queue() -> None:
    assert max_user_queue(stabilized(10, 100, mine=1, mine_running=80))[0] == pytest.approx(160)
    facts = stabilized(10, 4000, mine=0, mine_running=0)
    assert max_user_queue(replace(facts, n_users=np.full(len(facts.queued), 1e6)))[0] == pytest.approx(200)
    idle = stabilized(0, 0)
    assert max_user_queue(replace(idle, n_users=np.full(len(idle.queued), 1e6)))[0] == 5


def test_the_stabilizer_leaves_out_queues_where_the_user_has_enough_and_lets_others_in() -> None:
    rows = [counted("Q_A", "activated", 60, user="bob"), counted("Q_A", "activated", 51)]
    request = an_analysis(rows=UsageRows(rows))
    assert left_out(decided(two_queues(), request), "Q_A") == "analysis_stabilizer"
    assert left_out(decided(two_queues(), an_analysis(rows=UsageRows([rows[0], counted("Q_A", "activated", 50)]))),
                    "Q_A") is None  # fmt: skip


# -- classes ---------------------------------------------------------------------------------------------------------


def test_the_upper_limit_of_the_mean_wait_is_students_t_with_weights_that_halve_in_six_hours() -> None:
    waits = SiteWaits(hours=[(NOW, 4, 400.0, 60_000.0), (NOW - timedelta(hours=6), 4, 800.0, 180_000.0)])
    found = wait_metrics(waits, NOW)
    weight, n_effective = 4 + 2, 36 / 5
    mean = (400 + 400) / weight
    variance = ((60_000 + 90_000) / weight - mean**2) * n_effective / (n_effective - 1)
    expected = mean + student_t.ppf(0.95, n_effective - 1) * (variance / n_effective) ** 0.5
    assert found is not None and found.mean_s == pytest.approx(mean)
    assert found.upper_limit_s == pytest.approx(expected)


def test_sites_are_hi_mid_or_lo_by_their_ranking_time() -> None:
    def waits(mean_s: float, started: bool = True, waiting: tuple[float, ...] = ()) -> SiteWaits:
        return SiteWaits(started, [(NOW, 10, 10 * mean_s, 10 * mean_s**2)], list(waiting))

    found = classify_sites(
        {
            "QUICK": waits(100), "IDLE": waits(100, started=False), "JAMMED": waits(100, waiting=(5000.0,) * 4),
            "SLOW": waits(9000), "SLOWER": waits(50_000), "UNKNOWN": SiteWaits(True),
        },
        NOW,
    )  # fmt: skip
    assert found == {"QUICK": HI, "IDLE": MID, "JAMMED": MID, "SLOW": MID, "SLOWER": LO}


@pytest.mark.parametrize(
    ("express", "hi", "mid", "progress", "expected"),
    [
        (True, 9000, 9000, TaskProgress(), CLASS_S),
        (False, 999, 9000, TaskProgress(100, 0), CLASS_A),
        (False, 999, 0, TaskProgress(100, 90), CLASS_S),
        (False, 999, 0, TaskProgress(10_000, 9000), CLASS_A),  # more than 500 jobs remain
        (False, 1000, 6999, TaskProgress(100, 94), CLASS_B),
        (False, 1000, 6999, TaskProgress(100, 95), CLASS_S),
        (False, 1000, 7000, TaskProgress(100, 99), CLASS_C),
    ],
)
def test_tasks_are_s_a_b_or_c_by_share_progress_and_the_users_slots(express, hi, mid, progress, expected) -> None:
    assert classify_task(express, hi, mid, progress) == expected


def test_what_is_due_to_a_share_is_its_part_of_its_parents_part() -> None:
    shares = [("Analysis", 20.0, None), ("Production", 80.0, None), (SHARE, 3.0, "Analysis"), ("ART", 1.0, "Analysis")]
    assert percent_of_shares(shares)[SHARE] == 15.0


# -- weights ---------------------------------------------------------------------------------------------------------


def test_the_original_weight_is_running_plus_one_over_queued_plus_one() -> None:
    jobs = [JobCount("Q_A", "SCORE", "running", 29), JobCount("Q_A", "SCORE", "activated", 2)]
    decision = decided(two_queues(jobs=jobs), an_analysis())
    assert [(one.queue, one.weight) for one in decision.candidates] == [("Q_A", 10.0), ("Q_B", 1.0)]


@pytest.mark.parametrize(
    ("task_class", "expected"),
    [
        (CLASS_S, [7, EPSILON_1, EPSILON_2]),
        (CLASS_A, [7, EPSILON_1, EPSILON_2]),
        (CLASS_B, [EPSILON_2, 7, EPSILON_1]),
        (CLASS_C, [EPSILON_2, EPSILON_1, 7]),
    ],
)
def test_the_site_class_weight_is_the_number_of_jobs_where_class_of_task_and_site_meet(task_class, expected) -> None:
    facts = facts_of(two_queues(), an_analysis())
    facts = replace(facts, site_class=np.array([HI, MID, LO]), task_class=task_class)
    assert site_class_weight(facts, 7).tolist() == expected
    other = replace(facts, task=replace(facts.task, gshare="Group Analysis"))
    assert site_class_weight(other, 7).tolist() == [7, 7, 7]


def test_the_queue_length_weight_is_the_room_less_the_jobs_part_over_all_room_less_the_jobs() -> None:
    facts = stabilized(0, 0)
    alive = np.zeros(len(facts.queued), bool)
    alive[:] = True
    mine = facts.queued_of_user.copy()
    mine[1] = 40
    weights = queue_length_weight(replace(facts, queued_of_user=mine), alive, 20)
    assert weights[0] == pytest.approx((100 - 20 / 2) / (160 - 20))
    assert weights[1] == pytest.approx((60 - 20 / 2) / (160 - 20))
    crowded = queue_length_weight(replace(facts, queued_of_user=mine), alive, 1000)
    assert crowded.tolist() == [100 / 160, 60 / 160]


def test_the_new_weight_is_used_where_the_runtime_parameter_says_so() -> None:
    decision = decided(two_queues(), an_analysis(limits={"new_weight": True}, n_jobs=10))
    assert set(decision.terms) == {"site_class", "queue_length"}
    assert len(decision.candidates) == 2 and all(one.weight > 0 for one in decision.candidates)


def test_the_best_ten_candidates_are_taken() -> None:
    world = a_world([a_queue(f"Q_{n:02}", f"S{n}") for n in range(12)])
    assert len(decided(world, an_analysis()).candidates) == 10


def test_a_system_where_nothing_ever_ran_lets_analysis_flow() -> None:
    world = two_queues()
    request = an_analysis(rows=UsageRows(share_percent={SHARE: 10.0}), inputs=at("A_DATADISK"))
    assert [one.queue for one in decided(world, request).candidates] == ["Q_A"]
