"""The columns of analysis against one queue at a time: filters, the second pass and both weights in any world.

What is asked of queues as in production is mostly fulfilled here, so that the checks of analysis itself are reached.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings

from services.job_brokerage.policy.analysis import PIPELINE, AnalysisJobBrokerage
from shared.brokerage.classes import TaskProgress
from shared.brokerage.limits import AnalysisLimits, JobLimits
from shared.brokerage.load import Activity, JobCount
from shared.brokerage.request import InputDataset, InputReplica, SmallestJob
from shared.model.link import Link
from shared.model.queue import QueueStatus, QueueType
from shared.model.world_file import GroupUsage, QueueHistory, UserUsage
from tests.unit.brokerage import draw
from tests.unit.brokerage.analysis_worlds import UsageRows, an_analysis, counted, outcome
from tests.unit.brokerage.scalar_analysis import ANALYSIS_RULES, TEMPORARY, OneOfAnalysis, surplus, weight_of
from tests.unit.brokerage.scalar_queue import GB, MB, One
from tests.unit.brokerage.worlds import LIGHT, NOW, a_queue, a_storage, a_world

NAMES = [f"Q{n}" for n in range(4)]
SHARES = ("User Analysis", "User Analysis", "Express Analysis", "Group Analysis")

queues = draw.builds(
    a_queue,
    draw.sampled_from(NAMES),
    draw.sampled_from(["S0", "S1", "S1", "S2"]),
    status=draw.sampled_from([QueueStatus.ONLINE] * 9 + [QueueStatus.OFFLINE]),
    type=draw.sampled_from([QueueType.ANALYSIS, QueueType.UNIFIED] * 4 + [QueueType.PRODUCTION]),
    max_work_dir_mb=draw.sampled_from([0, 500, 1100] + [20_000] * 4),
    max_rss_mb=draw.sampled_from([899] + [4000] * 9),
    max_time_s=draw.sampled_from([600] + [345_600] * 9),
    direct_access_lan=draw.booleans(),
    max_disk_io_kb_s=draw.sampled_from([0, 300]),
    options=draw.sampled_from([{}, {"use_vp": "true"}, {"allow_no_pilot": "true"}, {"useJumboJobs": "true"}]),
)
changes = draw.fixed_dictionaries({
    "needs": draw.builds(
        lambda **values: replace(LIGHT, **values),
        work_dir_bytes=draw.sampled_from([0, 100 * MB]),
        output_bytes_per_input_mb=draw.sampled_from([0.0, MB / 10]),
        io_intensity_kb_s=draw.sampled_from([50.0, 300.0]),
        disk_io_kb_s=draw.sampled_from([0.0, 400.0]),
    ),
    "job": draw.sampled_from([SmallestJob(1, 0, 0), SmallestJob(1, 0, 1000 * MB)]),
    "priority": draw.sampled_from([100, 100, 1999, 2000]),
    "is_merge": draw.sampled_from([False, False, False, True]),
    "copies_to_scratch": draw.booleans(),
    "preassigned": draw.sampled_from([()] * 9 + [("Q1", "Q2")]),
    "included": draw.sampled_from([()] * 9 + [("Q1", "Q2")]),
    "excluded": draw.sampled_from([()] * 9 + [("Q3",)]),
    "n_jobs": draw.sampled_from([1, 30, 500]),
})  # fmt: skip
job_counts = draw.lists(
    draw.builds(
        JobCount,
        draw.sampled_from(NAMES),
        draw.just(""),
        draw.sampled_from(["running", "defined", "assigned", "activated", "starting"]),
        draw.sampled_from([1, 19, 21, 60]),
    ),
    max_size=6,
)
activities = draw.lists(
    draw.builds(
        Activity,
        draw.sampled_from(NAMES),
        last_pilot_at=draw.sampled_from([NOW, NOW, NOW, NOW - timedelta(hours=4)]),
        submitted_workers=draw.sampled_from([0, 12, 400]),
        n_slots=draw.sampled_from([None, 0, 100]),
        mean_disk_io_kb_s_per_core=draw.sampled_from([None, 100.0, 500.0]),
        known_since=draw.sampled_from([None, NOW - timedelta(hours=1), NOW - timedelta(hours=1)]),
    ),
    max_size=4,
    unique_by=lambda activity: activity.queue,
)
statistics = draw.lists(
    draw.builds(
        lambda queue, status, n_jobs, user, gshare, cores: counted(queue, status, n_jobs, user, gshare, cores * n_jobs),
        draw.sampled_from(NAMES),
        draw.sampled_from(["running", "defined", "assigned", "activated", "starting"]),
        draw.sampled_from([1, 5, 40, 90]),
        draw.sampled_from(["alice", "bob", "carol"]),
        draw.sampled_from(SHARES),
        draw.sampled_from([1, 8]),
    ),
    max_size=10,
)
outcomes = draw.lists(
    draw.tuples(
        draw.sampled_from([1.0, 6.0, 6.1]),
        draw.sampled_from(NAMES),
        draw.fixed_dictionaries(
            {name: draw.sampled_from([0, 2, 60]) for name in ("n_started", "n_finished", "n_failed", "n_closed")}
        ),
    ),
    max_size=5,
)
limits = draw.fixed_dictionaries({
    "running_jobs_cap": draw.sampled_from([0] * 9 + [50]), "running_cores_cap": draw.sampled_from([0] * 9 + [90]),
    "class_a_slots": draw.sampled_from([0, 1, 1000]), "class_b_slots": draw.sampled_from([0, 40, 8000]),
    "user_queued_jobs_cap": draw.sampled_from([0, 0, 39]), "max_sites_of_task": draw.sampled_from([0, 10, 10, 1]),
    "base_queue_length": draw.sampled_from([10.0, 100.0]), "new_weight": draw.booleans(),
})  # fmt: skip
inputs = draw.sampled_from(
    [
        (),
        (InputDataset("d", 10, GB, (InputReplica("S1_DATADISK", 10, GB), InputReplica("S0_DATADISK", 9, GB // 2))),),
    ]
)
tasks = draw.fixed_dictionaries({
    "gshare": draw.sampled_from(SHARES), "avoid_vp": draw.sampled_from([False, False, False, True]),
    "working_group": draw.sampled_from(["", "", "phys"]),
    "queues_used": draw.sampled_from([frozenset(), frozenset({"Q1"})]),
    "progress": draw.sampled_from([TaskProgress(), TaskProgress(100, 90), TaskProgress(1000, 950)]),
})  # fmt: skip
usages = draw.fixed_dictionaries({
    "users": draw.sampled_from([{}] * 9 + [{"alice": UserUsage(disk_quota_gb=10, disk_used_gb=11)}]),
    "groups": draw.just({"phys": GroupUsage(running_jobs=51, queued_jobs=100, running_cores=90, queued_cores=181)}),
    "share_percent": draw.sampled_from([{}, {}, {"User Analysis": 60.0}]),
})  # fmt: skip


def test_the_reference_has_every_check_of_analysis_in_its_order() -> None:
    elsewhere = {"cpu_hardware", "gpu_hardware", "container", "output_storage"}
    assert [one.check.name for one in PIPELINE.filters if one.check.name not in elsewhere] == list(ANALYSIS_RULES)


@settings(max_examples=600, deadline=None)
@given(
    draw.from_one_number(
        draw.lists(queues, min_size=2, max_size=4, unique_by=lambda queue: queue.name),
        changes,
        job_counts,
        activities,
        statistics,
        outcomes,
        draw.tuples(limits, inputs, tasks, usages),
        draw.sampled_from([100.0, 51_200.0, 51_200.0]),
        draw.sampled_from(["ON", "OFF"]),
        draw.sampled_from([0.0, 50.0]),
    )
)
def test_columns_of_analysis_decide_as_one_queue_at_a_time(drawn) -> None:
    found, changed, counts, signs, rows, done, of_analysis, free_gb, status, cutoff = drawn
    numbers, data, task, usage = of_analysis
    storages = [
        a_storage("S1_DATADISK", "S1", space_free_gb=free_gb),
        a_storage("S2_DATADISK", "S2", detailed_status={"read_lan": status}),
    ]
    world = a_world(found, storages=storages, jobs=counts, activities=signs)
    recorded = [(age_h, outcome(queue, age_h, **values)) for age_h, queue, values in done]
    request = an_analysis(
        rows=UsageRows(rows, QueueHistory(outcomes=[row for _, row in recorded]), **usage),
        limits=numbers,
        task=task,
        inputs=data,
        limits_of_jobs=JobLimits(io_intensity_cutoff_user_kb_s=cutoff),
        **changed,
    )
    jobs: dict[str, dict[str, int]] = {}
    for count in counts:
        states = jobs.setdefault(count.queue, {})
        states[count.status] = states.get(count.status, 0) + count.n_jobs
    known = {one.queue: one for one in signs if one.queue in {queue.name for queue in found}}
    since = [one.known_since for one in known.values() if one.known_since]
    every: list[OneOfAnalysis] = []
    for queue in found:
        one = One(
            queue,
            request,
            world.grid.storages[f"{queue.site}_DATADISK"],
            Link(queue.site, "S0"),
            "",
            jobs.get(queue.name, {}),
            known.get(queue.name, Activity(queue.name)),
            0,
            any(sign.last_pilot_at for sign in known.values()),
            min(since, default=None),
        )
        every.append(
            OneOfAnalysis(
                one,
                every,
                AnalysisLimits(**numbers),
                task["gshare"],
                task["progress"].percent,
                task["progress"].remaining_jobs,
                task["avoid_vp"],
                task["queues_used"],
                rows,
                recorded,
                usage["users"].get("alice", UserUsage()),
                usage["groups"].get(task["working_group"]),
                usage["share_percent"].get("User Analysis", 0.0),
            )
        )
    assert_same_verdicts(world, request, every)


def assert_same_verdicts(world: Any, request: Any, every: list[OneOfAnalysis]) -> None:
    """Every verdict, the first check that excluded each queue, and the weights."""
    verdicts = {one.check.name: one.decide(world, request) for one in PIPELINE.filters}
    decision = AnalysisJobBrokerage().decide(world, request, seed=1)
    names = list(ANALYSIS_RULES)
    persistent = names[names.index("queue_type") : names.index(TEMPORARY[0])]
    if not any(all(ANALYSIS_RULES[name](one) for name in persistent) for one in every):
        names.remove("input_locality")
    passed = [one for one in every if all(ANALYSIS_RULES[name](one) for name in names)]
    weights = {one.name: weight_of(one, passed) for one in passed}
    beyond = surplus(passed, weights)
    for one in every:
        place = decision.names.index(one.name)
        for name, passes in ANALYSIS_RULES.items():
            verdict = verdicts[name]
            assert (verdict is None or bool(verdict.passes[place])) == passes(one), name
        why = decision.exclusion(one.name)
        expected = next((name for name in names if not ANALYSIS_RULES[name](one)), None)
        expected = "sites_of_task" if one.name in beyond else expected
        assert (why[0].name if why else None) == expected
        if expected is None:
            assert decision.weights[place] == pytest.approx(weights[one.name])
