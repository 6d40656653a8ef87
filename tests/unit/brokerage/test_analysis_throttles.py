"""Analysis: what holds a whole task back, whatever the queue (PanDA brokerage: number of user jobs, quota, classes)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from services.job_brokerage.policy.request import TaskHistory, analysis_input
from shared.brokerage.classes import TaskProgress
from shared.brokerage.usage import OwnUsage, Usage
from shared.config.parameters import Parameters
from shared.model.world_file import GroupUsage, QueueHistory, StartWaits, UserUsage
from tests.unit.brokerage.analysis_worlds import SHARE, UsageRows, an_analysis, counted, decided, outcome, two_queues
from tests.unit.brokerage.worlds import NOW


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
        for is_merge in (False, True):
            decision = decided(two_queues(), an_analysis(rows=rows, is_merge=is_merge))
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
        StartWaits(hour=hour, queue="HI", gshare=SHARE, job_type="merge", n_jobs=9, wait_s=90, wait_squared_s2=900),
        StartWaits(hour=hour, queue="MID", gshare=SHARE, job_type="merge", n_jobs=9, wait_s=65000, wait_squared_s2=5e8),
    ]
    history = QueueHistory(outcomes=[outcome("HI", n_started=1), outcome("MID", n_started=1)], waits=waits)
    return UsageRows(statistics, history, {SHARE: due})


@pytest.mark.parametrize(
    ("slots_hi", "slots_mid", "usage_percent", "runs"),
    [
        (1000, 7000, 91, False), (1000, 7000, 90, True),  # class C
        (1000, 0, 96, False), (1000, 0, 95, True),  # class B
        (500, 0, 201, False), (500, 0, 200, True),  # class A: max(1000 / 500, 1) x 100 %
        (999, 9000, 101, False), (999, 9000, 100, True),  # max(1000 / 999, 1) x 100 % is 100.1 %
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


def test_class_s_is_never_held_by_the_usage_of_user_analysis() -> None:
    nearly_done = {"progress": TaskProgress(n_files=100, n_finished=95)}
    rows = classified(1000, 0, 19_000, 1000)
    assert decided(two_queues(), an_analysis(rows=rows, task=nearly_done)).chosen
    assert not decided(two_queues(), an_analysis(rows=rows)).chosen


@pytest.mark.parametrize(("working_group", "who"), [("", "USER"), ("phys", "GROUP")])
def test_caps_are_cap_running_user_and_for_a_working_group_cap_running_group(working_group, who) -> None:
    parameters = Parameters()
    for kind, jobs, cores in (("USER", 10, 20), ("GROUP", 30, 40)):
        parameters.set_for_test("prio_mgr", f"CAP_RUNNING_{kind}_JOBS", jobs, app="pandaserver")
        parameters.set_for_test("prio_mgr", f"CAP_RUNNING_{kind}_CORES", cores, app="pandaserver")
    row = {"task_id": 1, "user_name": "alice", "working_group": working_group, "gshare": SHARE, "vo": None,
           "split_rule": {}}  # fmt: skip
    limits = analysis_input(row, TaskHistory(), Usage(), OwnUsage(), parameters).limits
    assert (limits.running_jobs_cap, limits.running_cores_cap) == ((10, 20) if who == "USER" else (30, 40))


@pytest.mark.parametrize(("others", "runs"), [(10_000, False), (30_000, True)])
def test_usage_is_that_of_the_level_1_share_where_that_is_less(others, runs) -> None:
    """User Analysis has twice what is due to it; Analysis above it is due half of everything, and has 2/3 or 1/3."""
    counts = classified(1000, 7000, 20_000, others)
    tree = {SHARE: "Analysis", "Group Analysis": "Analysis", "Production": "Production"}
    percent = {SHARE: 100 * 20_000 / (20_000 + others) / 2, "Analysis": 50.0}
    rows = replace(counts, level_1=tree, share_percent=percent)
    assert bool(decided(two_queues(), an_analysis(rows=rows)).chosen) is runs


def test_other_shares_are_immune_to_the_usage_of_user_analysis() -> None:
    rows = classified(1000, 7000, 19_000, 1000)
    request = an_analysis(rows=rows, task={"gshare": "Group Analysis"}, gshare="Group Analysis")
    assert decided(two_queues(), request).chosen
