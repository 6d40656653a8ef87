"""Analysis job brokerage, each check of the document in its order through the whole decision: the first number that

is left out with its explanation, the last that passes, and which of two checks is the one that is told.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from services.job_brokerage.policy.analysis import PIPELINE
from shared.brokerage.decision import Decision
from shared.brokerage.load import JobCount
from shared.brokerage.request import InputDataset, InputReplica, JobRequest, SmallestJob
from shared.brokerage.world import World
from shared.model.queue import QueueType
from shared.model.world_file import QueueHistory, UserUsage
from tests.unit.brokerage.analysis_worlds import SHARE, UsageRows, an_analysis, counted, decided, outcome
from tests.unit.brokerage.parts import (
    COMMON,
    OTHER,
    QUEUE,
    Case,
    Part,
    both,
    explanation,
    jobs,
    named,
    neighbours,
    world_of,
)
from tests.unit.brokerage.worlds import LIGHT, a_queue

HOME = "HOME"


def analysis_world(part: Part) -> World:
    """Q with the changes of a part, and HOME, which has all the input and 100 running jobs."""
    return world_of(part, queues=[a_queue(HOME, HOME)], jobs=[JobCount(HOME, "", "running", 100)])


def request_of(part: Part) -> JobRequest:
    """`job` of a part is a number of events or a whole job."""
    values = dict(part.request)
    if isinstance(values.get("job"), int):
        values["job"] = SmallestJob(1, values["job"], 0)
    rows = UsageRows(part.statistics, QueueHistory(outcomes=list(part.outcomes)), **part.usage)
    return an_analysis(
        rows=rows,
        limits=dict(part.limits),
        task=dict(part.task),
        inputs=part.inputs,
        needs=replace(LIGHT, **part.needs),
        **values,
    )


def decision_of(part: Part) -> Decision:
    return decided(analysis_world(part), request_of(part))


def of_user(status: str, limit: str, **more: Any) -> Any:
    """Jobs of alice somewhere else, with a cap of 10."""
    return lambda n_jobs: Part(statistics=(counted("ELSEWHERE", status, n_jobs),), limits={limit: 10}, **more)


def of_user_cores(status: str) -> Any:
    """One job of alice with so many cores, with a cap of 10."""
    return lambda cores: Part(
        statistics=(counted("ELSEWHERE", status, 1, cores=cores),), limits={"running_cores_cap": 10}
    )


def input_of_4000_mb(n_files_at_q: int) -> Part:
    """Two files of 2000 MB, both at HOME."""
    size = 2000 * 1024**2
    copies = (
        InputReplica("HOME_DATADISK", 2, 2 * size),
        InputReplica("SAT_DATADISK", n_files_at_q, n_files_at_q * size),
    )
    return Part(inputs=(InputDataset("d", 2, 2 * size, copies),))


def virtual(queued: int) -> Part:
    """The ratio of all queues is (queued / 100) x 1.2, far below OVERLOAD_MIN_QUEUE."""
    return Part(queue={"options": {"use_vp": "true"}}, jobs=jobs(activated=queued))


# 1000 MB of input copied, 0.1 MB of output for each MB of input, 50 MB of work directory: 1150 MB
DISK = Part(
    needs={"output_bytes_per_input_mb": 1024**2 / 10, "work_dir_bytes": 50 * 1024**2},
    request={"job": SmallestJob(1, 0, 1000 * 1024**2)},
)

# In the order of the document; limits of the first four: a cap of 10.
CASES = (
    Case("running_jobs_above_CAP_RUNNING_USER_JOBS_throttle_the_task", "user_running_jobs", "policy",
         of_user("running", "running_jobs_cap"), 11, 10,
         "running jobs of user or group 11 jobs", "at most 10 jobs", temporary=True),
    Case("queued_jobs_above_2_x_CAP_RUNNING_USER_JOBS_throttle_the_task", "user_queued_jobs", "policy",
         of_user("activated", "running_jobs_cap"), 21, 20,
         "queued jobs of user or group 21 jobs", "at most 20 jobs", temporary=True),
    Case("running_cores_above_CAP_RUNNING_USER_CORES_throttle_the_task", "user_running_cores", "policy",
         of_user_cores("running"), 11, 10, "running cores of user or group 11 cores", "at most 10 cores",
         temporary=True),
    Case("queued_cores_above_2_x_CAP_RUNNING_USER_CORES_throttle_the_task", "user_queued_cores", "policy",
         of_user_cores("defined"), 21, 20, "queued cores of user or group 21 cores", "at most 20 cores",
         temporary=True),
    Case("an_exceeded_global_disk_quota_throttles_the_task", "disk_quota", "policy",
         lambda used: Part(usage={"users": {"alice": UserUsage(disk_quota_gb=100, disk_used_gb=used)}}), 101.0, 100.0,
         "disk used by the user 101 GB", "at most 100 GB", temporary=True),
    # Half of everything is due to User Analysis; alice has no slots left for classes A and B.
    Case("class_C_is_throttled_while_User_Analysis_uses_more_than_90_percent_of_its_target", "share_usage", "policy",
         lambda n_jobs: Part(statistics=(counted("X", "running", n_jobs, user="bob"),
                                         counted("X", "running", 1000 - n_jobs, user="bob", gshare="Production")),
                             usage={"share_percent": {SHARE: 50.0}},
                             limits={"class_a_slots": 0, "class_b_slots": 0}), 451, 450,
         "usage of User Analysis 90.2 %", "at most, by task class 90 %", temporary=True),
    Case("candidates_are_analysis_and_unified_queues", "queue_type", "configuration",
         lambda kind: Part(queue={"type": kind}), QueueType.PRODUCTION, QueueType.ANALYSIS,
         "type of the queue production", "unified or analysis"),
    COMMON["excluded_sites"], COMMON["included_sites"], COMMON["preassigned"], COMMON["status"],
    Case("queues_without_the_input_are_skipped", "input_locality", "data", input_of_4000_mb, 1, 2,
         "missing input 1 files", "at most 0 files"),
    COMMON["jumbo"], COMMON["disk_io"], COMMON["core_count"], COMMON["max_core_count"],
    Case("avoidVP_skips_VP_queues", "avoid_vp", "policy",
         lambda avoid: Part(queue={"options": {"use_vp": "true"}}, task={"avoid_vp": avoid}), True, False,
         "virtual placement yes", "must be no"),
    Case("overloaded_VP_queues_are_skipped", "vp_overloaded", "capacity", virtual, 21, 20,
         "queued jobs at a VP queue 21 jobs", "at most 20 jobs", temporary=True),
    COMMON["cpu_hardware"], COMMON["gpu_hardware"], COMMON["container"], COMMON["release"],
    COMMON["memory_too_large"], COMMON["memory_too_small"],
    Case("maxwdir_by_cores_is_larger_than_the_disk_usage_without_a_least_output", "scratch_disk", "configuration",
         lambda limit: both(Part(queue={"max_work_dir_mb": limit}), DISK), 1150, 1151,
         "disk of a job 1150 MB", "less than maxwdir of a slot 1150 MB"),
    COMMON["output_storage"], COMMON["free_space"], COMMON["write_storage"],
    Case("storage_endpoints_blacklisted_for_reading_are_skipped_if_there_is_input", "read_storage", "data",
         lambda flag: both(Part(storage={"blacklisted_read": flag}), input_of_4000_mb(2)), True, False,
         "an input storage works no", "must be yes", temporary=True),
    COMMON["walltime_too_long"], COMMON["walltime_too_short"], COMMON["connectivity"], COMMON["ip_stack"],
    COMMON["pilots"],
    # max(2 x 3 finished, MIN_BAD_JOBS_TO_SKIP_PQ 5) = 6
    Case("failed_and_closed_jobs_of_the_task_are_less_than_2_x_finished_or_MIN_BAD_JOBS_TO_SKIP_PQ", "bad_jobs",
         "capacity", lambda n_jobs: Part(outcomes=(outcome(QUEUE, n_finished=3, n_failed=n_jobs, n_closed=2),)), 4, 3,
         "failed and closed jobs of the task 6 jobs", "less than 6 jobs", temporary=True),
    Case("queued_jobs_are_at_most_2_x_max_20_running", "long_queue", "capacity",
         lambda n_jobs: Part(jobs=jobs(running=19, defined=10, assigned=10, starting=10, activated=n_jobs)), 11, 10,
         "queued jobs 41 jobs", "at most 40 jobs", temporary=True),
    Case("a_user_with_too_many_queued_jobs_by_MAX_QUEUED_JOBS_PER_PQ_USER_is_skipped", "user_queue", "capacity",
         lambda n_jobs: Part(statistics=(counted(QUEUE, "activated", n_jobs),), limits={"user_queued_jobs_cap": 7}),
         8, 7, "queued jobs of the user 8 jobs", "at most 7 jobs", temporary=True),
    # nQ_max = BASE_QUEUE_LENGTH_PER_PQ 100, alice is one of two users: max_q_len = 50
    Case("the_Analysis_Stabilizer_skips_queues_where_the_user_has_more_than_max_q_len", "analysis_stabilizer",
         "capacity", lambda n_jobs: Part(statistics=(counted(QUEUE, "activated", 60, user="bob"),
                                                     counted(QUEUE, "activated", n_jobs))), 51, 50,
         "queued jobs of the user 51 jobs", "at most 50 jobs", temporary=True),
    Case("a_task_uses_no_more_than_MAX_SITES_OF_TASK_sites", "sites_of_task", "policy",
         lambda limit: Part(task={"queues_used": frozenset({HOME})}, limits={"max_sites_of_task": limit}), 1, 2,
         "sites that the task uses 1 sites", "less than 1 sites", temporary=True),
)  # fmt: skip


def test_every_check_of_analysis_is_here_in_the_order_of_the_document() -> None:
    assert [one.check for one in CASES] == [one.check.name for one in PIPELINE.filters]


@pytest.mark.parametrize("case", named(CASES))
def test_analysis_leaves_a_queue_out_with_check_numbers_and_tier(case: Case) -> None:
    decision = decision_of(case.broken)
    assert QUEUE not in decision.chosen
    assert explanation(decision) == case.explanation


@pytest.mark.parametrize("case", named(CASES))
def test_analysis_takes_a_queue_at_the_last_number_that_passes(case: Case) -> None:
    decision = decision_of(case.part(case.good))
    assert explanation(decision) is None and QUEUE in decision.chosen


# A queue that was named may have any status.
@pytest.mark.parametrize(("first", "second"), neighbours(CASES, ("preassigned", "status")))
def test_of_two_checks_that_an_analysis_queue_fails_the_first_in_the_document_is_told(
    first: Case, second: Case
) -> None:
    part = both(first.broken, second.broken)
    world, request = analysis_world(part), request_of(part)
    place = world.columns.labels.index(QUEUE)
    filters = {one.check.name: one for one in PIPELINE.filters}
    for check in (first.check, second.check):
        verdict = filters[check].decide(world, request)
        assert verdict is not None and not verdict.passes[place], f"{check} is not failed at all"
    told = explanation(decided(world, request))
    assert told is not None and told.check == first.check


def test_excluded_and_included_queues_that_the_grid_does_not_have_change_nothing() -> None:
    assert set(decision_of(Part(request={"excluded": (OTHER,)})).chosen) == {QUEUE, HOME}
