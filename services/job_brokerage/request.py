"""A chunk's row as the value that the policies read. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from shared.brokerage.analysis_facts import AnalysisInput, AnalysisLimits, TaskFacts
from shared.brokerage.classes import TaskProgress
from shared.brokerage.limits import JobLimits
from shared.brokerage.matchmaking import Advert, requirements_in
from shared.brokerage.request import InputDataset, JobRequest, names_in, uses_jumbo
from shared.brokerage.smallest_job import (
    Boundary,
    SecondaryInput,
    SmallestJob,
    Unmerged,
    merge_job,
    most_events,
    smallest_job,
)
from shared.brokerage.software import software_of_task
from shared.brokerage.usage import OwnUsage, Usage
from shared.config.parameters import Parameters
from shared.model.needs import WorkNeeds, needs_of_merge_job, needs_of_task
from shared.model.split_precedence import rules_in_effect

ANALYSIS_TYPE = "anal"


def limits_from(
    parameters: Parameters, *, vo: str | None, is_analysis: bool, gshare: str | None = None, cloud: str | None = None
) -> JobLimits:
    """The runtime parameters of job brokerage; `anal_jobbroker` wins over `jobbroker` for analysis.

    NQUEUELIMITSITE and CLOUD_WEIGHT may be set for a share or a cloud: `NQUEUELIMITSITE_<gshare>`.
    """
    default = JobLimits()

    def number(key: str, otherwise: float) -> float:
        value = parameters.get("jobbroker", key, vo=vo, default=float(otherwise))
        return parameters.get("anal_jobbroker", key, vo=vo, default=value) if is_analysis else value

    def own(key: str, name: str | None, otherwise: float) -> float:
        value = number(key, otherwise)
        return number(f"{key}_{name}", value) if name else value

    return JobLimits(
        queued_files_of_nucleus_cap=int(number("NQUEUED_NUC_CAP_FOR_JOBS", default.queued_files_of_nucleus_cap)),
        io_intensity_cutoff_kb_s=number("IO_INTENSITY_CUTOFF", default.io_intensity_cutoff_kb_s),
        missing_input_cutoff_gb=number("SIZE_CUTOFF_TO_MOVE_INPUT", default.missing_input_cutoff_gb),
        missing_files_cutoff=int(number("NUM_CUTOFF_TO_MOVE_INPUT", default.missing_files_cutoff)),
        max_disk_io_kb_s=number("MAX_DISKIO_DEFAULT", default.max_disk_io_kb_s),
        network_threshold=number("NW_THRESHOLD", default.network_threshold),
        network_weight_multiplier=number("NW_WEIGHT_MULTIPLIER", default.network_weight_multiplier),
        queued_jobs_floor=int(own("NQUEUELIMITSITE", gshare, default.queued_jobs_floor)),
        cloud_weight=own("CLOUD_WEIGHT", cloud, default.cloud_weight),
        inactive_after_s=number("INACTIVE_AFTER_S", default.inactive_after_s),
        no_pilot_after_s=number("NO_PILOT_AFTER_S", default.no_pilot_after_s),
        preassignment_of_merging_s=number("MERGE_PREASSIGNMENT_S", default.preassignment_of_merging_s),
        queued_files_of_link_cap=max(1, int(number("NQUEUED_SAT_CAP", default.queued_files_of_link_cap))),
        network_queue_importance=number("NW_QUEUE_IMPORTANCE", default.network_queue_importance),
        storage_min_free_gb=number("STORAGE_MIN_FREE_SIZE", default.storage_min_free_gb),
        io_intensity_cutoff_user_kb_s=number("IO_INTENSITY_CUTOFF_USER", default.io_intensity_cutoff_user_kb_s),
        candidates=max(1, int(number("MAX_CANDIDATES", default.candidates))),
        retry_production_s=number("RETRY_PRODUCTION_S", default.retry_production_s),
        retry_analysis_s=number("RETRY_ANALYSIS_S", default.retry_analysis_s),
    )


def analysis_limits_from(parameters: Parameters, *, vo: str | None, is_group: bool) -> AnalysisLimits:
    """The runtime parameters of analysis; the caps of users or of working groups."""
    default = AnalysisLimits()

    def number(key: str, otherwise: float, component: str = "anal_jobbroker", app: str = "jedi") -> float:
        return parameters.get(component, key, app=app, vo=vo, default=float(otherwise))

    def own(component: str, key: str, otherwise: float) -> float:
        """Those of the server's own components."""
        return number(key, otherwise, component, "pandaserver")

    who = "GROUP" if is_group else "USER"
    return AnalysisLimits(
        running_jobs_cap=int(own("prio_mgr", f"CAP_RUNNING_{who}_JOBS", default.running_jobs_cap)),
        running_cores_cap=int(own("prio_mgr", f"CAP_RUNNING_{who}_CORES", default.running_cores_cap)),
        class_a_slots=int(own("analy_eval", "USER_USAGE_THRESHOLD_A", default.class_a_slots)),
        class_b_slots=int(own("analy_eval", "USER_USAGE_THRESHOLD_B", default.class_b_slots)),
        progress_to_boost_a=own("analy_eval", "PROGRESS_TO_BOOST_A", default.progress_to_boost_a),
        progress_to_boost_b=own("analy_eval", "PROGRESS_TO_BOOST_B", default.progress_to_boost_b),
        max_jobs_to_boost_a=int(own("analy_eval", "MAX_REM_JOBS_TO_BOOST_A", default.max_jobs_to_boost_a)),
        max_jobs_to_boost_b=int(own("analy_eval", "MAX_REM_JOBS_TO_BOOST_B", default.max_jobs_to_boost_b)),
        done_jobs_window_h=number("TW_DONE_JOB_STAT", default.done_jobs_window_h),
        min_bad_jobs=int(number("MIN_BAD_JOBS_TO_SKIP_PQ", default.min_bad_jobs)),
        base_queue_length=number("BASE_QUEUE_LENGTH_PER_PQ", default.base_queue_length),
        base_expected_wait_h=number("BASE_EXPECTED_WAIT_HOUR_ON_PQ", default.base_expected_wait_h),
        base_user_queue_length=number("BASE_DEFAULT_QUEUE_LENGTH_PER_PQ_USER", default.base_user_queue_length),
        base_queue_ratio=number("BASE_QUEUE_RATIO_ON_PQ", default.base_queue_ratio),
        max_queue_running_ratio=number("STATIC_MAX_QUEUE_RUNNING_RATIO", default.max_queue_running_ratio),
        max_expected_wait_h=number("MAX_EXPECTED_WAIT_HOUR", default.max_expected_wait_h),
        overload_min_queue=int(number("OVERLOAD_MIN_QUEUE", default.overload_min_queue)),
        overload_ratio_offset=number("OVERLOAD_RATIO_OFFSET", default.overload_ratio_offset),
        user_queued_jobs_cap=int(number("MAX_QUEUED_JOBS_PER_PQ_USER", default.user_queued_jobs_cap)),
        max_sites_of_task=int(number("MAX_SITES_OF_TASK", default.max_sites_of_task)),
        new_weight=parameters.get("anal_jobbroker", "USE_NEW_BASIC_WEIGHT", vo=vo, default=default.new_weight),
    )


@dataclass(frozen=True)
class TaskHistory:
    """How far an analysis task is, and where it has had jobs."""

    n_files: int = 0
    n_finished: int = 0
    queues_used: tuple[str, ...] = ()


def analysis_input(
    row: Mapping[str, Any], history: TaskHistory, usage: Usage, own: OwnUsage, parameters: Parameters
) -> AnalysisInput:
    """What analysis brokerage also needs of an offered chunk's task."""
    rules = rules_in_effect(row["split_rule"] or {})
    group = row["working_group"] or ""
    facts = TaskFacts(
        task_id=row["task_id"],
        user_name=row["user_name"] or "",
        working_group=group,
        gshare=row["gshare"] or "",
        progress=TaskProgress(history.n_files, history.n_finished, int(rules.get("nFilesPerJob") or 1)),
        queues_used=frozenset(history.queues_used),
        avoid_vp=bool(rules.get("avoidVP")),
    )
    return AnalysisInput(facts, analysis_limits_from(parameters, vo=row["vo"], is_group=bool(group)), usage, own)


def job_request(
    row: Mapping[str, Any],
    inputs: tuple[InputDataset, ...],
    limits: JobLimits,
    now: datetime,
    analysis: AnalysisInput | None = None,
    site_adverts: tuple[Advert, ...] = (),
    secondary: tuple[SecondaryInput, ...] = (),
) -> JobRequest:
    """The request for one offered chunk.

    A chunk with a queue of its own (merging) may go nowhere else; once that queue has been left out for 24 hours, the
    chunk goes where the task may go. The priority of merge jobs is the task's: their own only says that they are
    dispatched first. Units whose memory was raised after a failure form chunks of their own, which need that memory.
    `secondary`: the task's input that follows the chunk's files.
    Raises UnknownUnit, InvalidArchitecture or ValueError if the task's needs make no sense.
    """
    rules = row["split_rule"] or {}
    is_merge = row["kind"] == "merge"
    needs: WorkNeeds = needs_of_merge_job(row) if is_merge else needs_of_task(row)
    needs = replace(needs, ram_mb=max(needs.ram_mb, row.get("chunk_ram_mb") or 0))
    own_queue = names_in(row["chunk_queue"])
    waiting_since = row.get("merge_waiting_since")
    if is_merge and waiting_since and (now - waiting_since).total_seconds() >= limits.preassignment_of_merging_s:
        own_queue = ()
    job = job_of_chunk(row, inputs, secondary)
    if is_merge and own_queue:
        inputs = ()  # unmerged files are where their queue is, whatever other queues have of the dataset
    return replace(
        request_of_task(row, rules, needs, now),
        chunk_id=row["chunk_id"],
        priority=row["current_priority"] if is_merge else row["chunk_priority"],
        is_scout=row["kind"] == "scout",
        is_merge=is_merge,
        is_pre_merged=bool(rules.get("mergeOutput")) and not is_merge,
        preassigned=own_queue or names_in(row["site"]),
        job=job,
        n_jobs=jobs_of_chunk(row, job),
        inputs=inputs,
        limits=limits,
        analysis=analysis,
        site_adverts=site_adverts,
    )


def request_of_task(row: Mapping[str, Any], rules: Mapping[str, Any], needs: WorkNeeds, now: datetime) -> JobRequest:
    """The part of the request that is the same for every chunk of the task. Raises InvalidArchitecture, ValueError."""
    return JobRequest(
        task_id=row["task_id"],
        now=now,
        needs=needs,
        vo=row["vo"] or "",
        label=row["prod_source_label"] or "",
        is_analysis=row["task_type"] == ANALYSIS_TYPE,
        processing_type=row["processing_type"] or "",
        working_group=row["working_group"] or "",
        gshare=row["gshare"] or "",
        user_name=row["user_name"],
        resource_type=row["resource_type"] or "",
        is_event_service=bool(row.get("event_service")),
        uses_jumbo=uses_jumbo(row),
        dynamic_number_of_events=bool(rules.get("dynamicNumEvents")),
        most_events=most_events(rules),
        t1_weight=int(rules.get("t1Weight") or 0),
        full_chain=str(rules.get("fullChain") or ""),
        software=software_of_task(row),
        direct_access_only=rules.get("allowInputLAN") == "only",
        nucleus=row["nucleus"],
        included=names_in(rules.get("includedSite")),
        excluded=names_in(rules.get("excludedSite")),
        copies_to_scratch=bool(rules.get("useLocalIO")),
        stations=names_in(rules.get("samStations")),
        requirements=requirements_in(rules),
    )


def job_of_chunk(
    row: Mapping[str, Any], inputs: Sequence[InputDataset], secondary: Sequence[SecondaryInput]
) -> SmallestJob:
    """The smallest job of the chunk's files: by the split rules, or by the rules of merging."""
    rules, counted = row["split_rule"] or {}, (row["chunk_files"], row["chunk_events"], row["chunk_bytes"])
    if row["kind"] == "merge":
        return merge_job(rules, [Unmerged(one.n_files, one.n_bytes) for one in inputs], *counted)
    whole_files = sum(one.n_files for one in inputs if one.is_master) or row["chunk_files"]
    largest = row.get("largest_boundary")
    boundary = Boundary(**largest) if largest else None
    return smallest_job(rules, *counted, whole_files=whole_files, secondary=secondary, boundary=boundary)


def jobs_of_chunk(row: Mapping[str, Any], job: SmallestJob) -> int:
    """How many jobs the chunk may become: one for each boundary that is one job; else by events if the smallest job has
    a number of them, else by files.
    """
    if row.get("largest_boundary"):
        return max(1, int(row["largest_boundary"]["n_boundaries"]))
    if job.n_events and row["chunk_events"]:
        return max(1, -(-int(row["chunk_events"]) // job.n_events))
    return max(1, -(-int(row["chunk_files"]) // max(1, job.n_files)))
