"""Production job brokerage, each check of the document in its order through the whole decision: the first number that

is left out with its explanation, the last that passes, and which of two checks is the one that is told.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from services.job_brokerage.policy.production import CAPS, PIPELINE, ProductionJobBrokerage
from shared.brokerage.decision import Decision
from shared.brokerage.load import JobCount
from shared.brokerage.request import InputDataset, InputReplica, JobRequest, SmallestJob
from shared.model.queue import QueueType
from tests.unit.brokerage.parts import (
    COMMON,
    LONG_AGO,
    NUCLEUS,
    QUEUE,
    Case,
    Part,
    both,
    explanation,
    jobs,
    long_ago,
    named,
    neighbours,
    world_of,
)
from tests.unit.brokerage.worlds import LIGHT, a_queue, a_request

GB = 1024**3


def request_of(part: Part) -> JobRequest:
    """A task of nucleus NUC; `job` of a part is a number of events."""
    values = dict(part.request)
    if "job" in values:
        values["job"] = SmallestJob(1, values["job"], 0)
    return a_request(**{"nucleus": NUCLEUS, "inputs": part.inputs, "needs": replace(LIGHT, **part.needs), **values})


def decided(part: Part) -> Decision:
    return ProductionJobBrokerage().decide(world_of(part), request_of(part), 1)


def missing(n_files: int, n_bytes: int) -> Part:
    """Input that is all at another queue, which is full at the moment, for a task above IO_INTENSITY_CUTOFF."""
    inputs = (InputDataset("d", n_files, n_bytes, (InputReplica("NEAR_DATADISK", n_files, n_bytes),)),)
    full = (JobCount("Z_NEAR", "", "transferring", 2001),)
    return Part(needs={"io_intensity_kb_s": 201.0}, inputs=inputs, queues=(a_queue("Z_NEAR", "NEAR"),), jobs=full)


# In the order of the document.
CASES = (
    COMMON["preassigned"], COMMON["included_sites"], COMMON["excluded_sites"],
    Case("queues_with_test_in_the_name_are_no_candidates", "test_queue", "configuration",
         lambda name: Part(queue={"name": name}), "Q_tEsT", QUEUE, "'test' in the name yes", "must be no"),
    Case("candidates_are_production_and_unified_queues", "queue_type", "configuration",
         lambda kind: Part(queue={"type": kind}), QueueType.ANALYSIS, QueueType.PRODUCTION,
         "type of the queue analysis", "unified or production"),
    COMMON["status"],
    Case("queues_whose_link_to_the_nucleus_is_blocked_are_skipped", "blocked_link", "configuration",
         lambda closeness: Part(link={"closeness": closeness}), -1, 0, "closeness to the nucleus -1", "not -1"),
    Case("queues_over_NQUEUED_SAT_CAP_files_on_the_link_to_the_nucleus_are_skipped", "link_backlog", "capacity",
         lambda queued: Part(link={"queued_output": queued}), 301, 300,
         "files queued to the nucleus 301 files", "at most 300 files", temporary=True),
    Case("all_queues_are_skipped_over_NQUEUED_NUC_CAP_FOR_JOBS_files_to_the_nucleus", "nucleus_backlog", "capacity",
         lambda queued: Part(far={"queued_output": queued}), 10_001, 10_000,
         "files queued to the nucleus from everywhere 10001 files", "at most 10000 files", temporary=True),
    Case("priority_800_uses_only_queues_of_the_nucleus", "nucleus_only", "policy",
         lambda priority: Part(request={"priority": priority}), 800, 799, "queue of the nucleus no", "must be yes"),
    Case("inactive_queues_are_skipped_where_no_job_started_for_2_hours", "inactive", "capacity",
         lambda seconds: Part(request={"is_pre_merged": True}, jobs=jobs(activated=1),
                              activity={"last_job_start_at": long_ago(2, seconds), "known_since": LONG_AGO}), 1, 0,
         "time since a job started 7201 s", "at most 7200 s", temporary=True),
    Case("zero_share_of_fairsharepolicy_turns_work_away", "zero_share", "policy",
         lambda kind: Part(queue={"fair_share_policy": "type=evgen:100%,type=simul:100%,type=any:0%"},
                           request={"processing_type": kind}), "deriv", "simul",
         "turned away by sub-policy type=any:0%", "must be none"),
    COMMON["jumbo"],
    Case("above_IO_INTENSITY_CUTOFF_missing_input_is_less_than_SIZE_CUTOFF_TO_MOVE_INPUT", "missing_input_size", "data",
         lambda n_bytes: missing(99, n_bytes), 10 * GB, 10 * GB - 1, "input to be moved 10 GB", "less than 10 GB"),
    Case("above_IO_INTENSITY_CUTOFF_missing_files_are_less_than_NUM_CUTOFF_TO_MOVE_INPUT", "missing_input_files",
         "data", lambda n_files: missing(n_files, 10 * GB - 1), 100, 99, "files to be moved 100 files",
         "less than 100 files"),
    COMMON["disk_io"], COMMON["core_count"], COMMON["max_core_count"], COMMON["cpu_hardware"], COMMON["gpu_hardware"],
    COMMON["container"], COMMON["release"], COMMON["memory_too_large"], COMMON["memory_too_small"],
    Case("queues_without_direct_access_are_skipped_if_the_task_only_reads_directly", "direct_access", "configuration",
         lambda direct: Part(queue={"direct_access_lan": direct}, request={"direct_access_only": True}), False, True,
         "direct access to local storage no", "must be yes"),
    # nothing to read, 0.5 GB of output at least, no work directory
    Case("maxwdir_by_cores_is_larger_than_the_disk_usage", "scratch_disk", "configuration",
         lambda limit: Part(queue={"max_work_dir_mb": limit}), 512, 513,
         "disk of a job 512 MB", "less than maxwdir of a slot 512 MB"),
    COMMON["output_storage"], COMMON["free_space"], COMMON["write_storage"],
    Case("blacklisted_storage_endpoints_are_skipped_that_input_is_read_from", "input_storage", "data",
         lambda flag: Part(storage={"blacklisted_read": flag}, inputs=(InputDataset("far", 1, 1),)), True, False,
         "input storage works no", "must be yes", temporary=True),
    # A scout without nucleus: with one it would have to go there.
    Case("scouts_skip_queues_whose_maxtime_is_less_than_24_hours", "walltime_of_a_day", "configuration",
         lambda limit: Part(queue={"max_time_s": limit}, request={"is_scout": True, "nucleus": None}), 86_399, 86_400,
         "maxtime of the queue 86399 s", "at least 86400 s"),
    COMMON["walltime_too_long"], COMMON["walltime_too_short"], COMMON["connectivity"], COMMON["ip_stack"],
    Case("event_service_needs_a_queue_for_it", "event_service", "configuration",
         lambda seed: Part(queue={"jobseed": seed}, request={"is_event_service": True}), "std", "es",
         "jobseed of the queue std", "must be es or all"),
    Case("a_dynamic_number_of_events_needs_a_queue_for_it", "dynamic_number_of_events", "configuration",
         lambda mintime: Part(queue={"min_time_s": mintime}, request={"dynamic_number_of_events": True}), 0, 1,
         "mintime of the queue 0 s", "more than 0 s"),
    Case("queues_with_more_than_2000_transferring_jobs_are_skipped", "transferring", "capacity",
         lambda n_jobs: Part(jobs=jobs(transferring=n_jobs)), 2001, 2000,
         "transferring jobs 2001 jobs", "at most 2000 jobs", temporary=True),
    Case("t1Weight_minus_1_uses_only_queues_of_the_nucleus", "t1_weight", "policy",
         lambda weight: Part(request={"t1_weight": weight}), -1, 0, "queue of the nucleus no", "must be yes"),
    Case("a_full_chain_task_at_a_bare_nucleus_uses_only_its_queues", "full_chain", "policy",
         lambda bare: Part(nucleus={"bare_nucleus": bare}, request={"full_chain": "capable"}), "allow", "",
         "queue of the nucleus no", "must be yes"),
    COMMON["pilots"],
    # 0.5 x (2 + 1 + (11 - 7) / 11) = 1.68182, with closeness 6 it is 1.72727
    Case("urgent_work_needs_a_network_weight_of_NW_THRESHOLD_x_NW_WEIGHT_MULTIPLIER", "network_weight", "capacity",
         lambda closeness: Part(link={"closeness": closeness}, request={"processing_type": "urgent"}), 7, 6,
         "network weight 1.68182", "at least 1.7", temporary=True),
    Case("activated_and_starting_jobs_are_at_most_2_x_running", "activated_and_starting", "capacity",
         lambda n_jobs: Part(jobs=jobs(running=20, activated=30, starting=n_jobs)), 11, 10,
         "activated and starting jobs 41 jobs", "at most 40 jobs", temporary=True),
    Case("defined_activated_assigned_and_starting_jobs_are_at_most_2_x_running_or_20", "queued", "capacity",
         lambda n_jobs: Part(jobs=jobs(running=1, defined=5, activated=5, starting=5, assigned=n_jobs),
                             inputs=(InputDataset("far", 1, 1),)), 6, 5,
         "defined, activated, assigned, starting jobs 21 jobs", "at most 20 jobs", temporary=True),
)  # fmt: skip


def test_every_check_of_production_is_here_in_the_order_of_the_document() -> None:
    assert [one.check for one in CASES] == [one.check.name for one in (*PIPELINE.filters, *CAPS.filters)]


def test_a_queue_that_fails_no_check_is_chosen() -> None:
    assert decided(Part()).chosen == (QUEUE,)


@pytest.mark.parametrize("case", named(CASES))
def test_production_leaves_a_queue_out_with_check_numbers_and_tier(case: Case) -> None:
    name = case.broken.queue.get("name", QUEUE)
    decision = decided(case.broken)
    assert decision.chosen == ()
    assert explanation(decision, name) == case.explanation.model_copy(update={"name": name})


@pytest.mark.parametrize("case", named(CASES))
def test_production_takes_a_queue_at_the_last_number_that_passes(case: Case) -> None:
    decision = decided(case.part(case.good))
    assert explanation(decision) is None and decision.chosen == (QUEUE,)


@pytest.mark.parametrize(("first", "second"), neighbours(CASES))
def test_of_two_checks_that_a_production_queue_fails_the_first_in_the_document_is_told(
    first: Case, second: Case
) -> None:
    part = both(first.broken, second.broken)
    world, request = world_of(part), request_of(part)
    filters = {one.check.name: one for one in (*PIPELINE.filters, *CAPS.filters)}
    for check in (first.check, second.check):
        verdict = filters[check].decide(world, request)
        assert verdict is not None and not verdict.passes[0], f"{check} is not failed at all"
    told = explanation(ProductionJobBrokerage().decide(world, request, 1), world.columns.queues[0].name)
    assert told is not None and told.check == first.check
