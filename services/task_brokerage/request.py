"""A task's row as the value that the policies read. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from shared.brokerage.limits import TaskLimits
from shared.brokerage.nucleus import RemainingWork, TaskRequest
from shared.brokerage.request import InputDataset, JobRequest, names_in, uses_jumbo
from shared.brokerage.smallest_job import SecondaryInput, most_events, smallest_job
from shared.brokerage.software import software_of_task
from shared.config.parameters import Parameters
from shared.model.needs import needs_of_task

COMPONENT = "taskbrokerage"
TB_GB = 1024.0
DAY_S = 86_400.0


def limits_from(parameters: Parameters, *, vo: str | None, gshare: str | None) -> TaskLimits:
    """The runtime parameters of task brokerage; disk thresholds are in TB, fractions in percent, periods in days."""
    default = TaskLimits()

    def number(key: str, otherwise: float) -> float:
        return parameters.get(COMPONENT, key, vo=vo, default=float(otherwise))

    threshold_tb = number("DISK_THRESHOLD", default.disk_threshold_gb / TB_GB)
    if gshare:
        threshold_tb = number(f"DISK_THRESHOLD_{gshare}", threshold_tb)
    min_io = number("MIN_IO_INTENSITY_WITH_LOCAL_DATA", default.min_io_intensity_with_local_data_kb_s)
    return TaskLimits(
        disk_threshold_gb=threshold_tb * TB_GB,
        input_size_threshold_gb=number("INPUT_SIZE_THRESHOLD", default.input_size_threshold_gb),
        input_size_fraction=number("INPUT_SIZE_FRACTION", default.input_size_fraction * 100) / 100,
        input_files_threshold=int(number("INPUT_NUM_THRESHOLD", default.input_files_threshold)),
        input_files_fraction=number("INPUT_NUM_FRACTION", default.input_files_fraction * 100) / 100,
        min_io_intensity_with_local_data_kb_s=min_io,
        min_input_with_local_data_gb=number("MIN_INPUT_SIZE_WITH_LOCAL_DATA", default.min_input_with_local_data_gb),
        max_priority_with_local_data=int(number("MAX_TASK_PRIO_WITH_LOCAL_DATA", default.max_priority_with_local_data)),
        data_location_check_period_s=number("DATA_LOCATION_CHECK_PERIOD", default.data_location_check_period_s / DAY_S)
        * DAY_S,
        queued_files_of_nucleus_cap=int(number("NQUEUED_NUC_CAP", default.queued_files_of_nucleus_cap)),
        retry_s=number("RETRY_S", default.retry_s),
    )


def task_request(
    row: Mapping[str, Any],
    datasets: Sequence[Mapping[str, Any]],
    inputs: tuple[InputDataset, ...],
    remaining_work: Mapping[str, RemainingWork],
    limits: TaskLimits,
    now: datetime,
) -> TaskRequest:
    """The request for one assigning task. Its typical job is a scout, if it has any: they run at the nucleus only.

    Raises UnknownUnit, InvalidArchitecture or ValueError if the task's needs make no sense.
    """
    rules = row["split_rule"] or {}
    needs = needs_of_task(row)
    masters = [one for one in datasets if one["is_master"]]
    job = JobRequest(
        task_id=row["task_id"],
        now=now,
        needs=needs,
        vo=row["vo"] or "",
        label=row["prod_source_label"] or "",
        is_analysis=row["task_type"] == "anal",
        processing_type=row["processing_type"] or "",
        resource_type=row["resource_type"] or "",
        priority=row["current_priority"],
        working_group=row["working_group"] or "",
        gshare=row["gshare"] or "",
        is_scout=not rules.get("skipScout"),
        is_event_service=bool(row.get("event_service")),
        uses_jumbo=uses_jumbo(row),
        dynamic_number_of_events=bool(rules.get("dynamicNumEvents")),
        most_events=most_events(rules),
        software=software_of_task(row),
        direct_access_only=rules.get("allowInputLAN") == "only",
        included=names_in(rules.get("includedSite")),
        excluded=names_in(rules.get("excludedSite")),
        copies_to_scratch=bool(rules.get("useLocalIO")),
        job=smallest_job(
            rules,
            sum(one["n_files"] for one in masters),
            sum(one["n_events"] for one in masters),
            sum(one.n_bytes for one in inputs if one.is_master),
            secondary=_secondary(datasets, inputs),
        ),
    )
    return TaskRequest(
        task_id=row["task_id"],
        now=now,
        job=job,
        priority=row["current_priority"],
        gshare=row["gshare"] or "",
        io_intensity_kb_s=needs.io_intensity_kb_s,
        t1_weight=int(rules.get("t1Weight") or 0),
        local_on_master=bool(rules.get("taskBrokerOnMaster")),
        input_pre_staging=bool(rules.get("inputPreStaging")),
        full_chain=str(rules.get("fullChain") or ""),
        parent_nucleus=row.get("parent_nucleus"),
        assigning_since=row.get("assigning_since"),
        inputs=inputs,
        remaining_work=remaining_work,
        limits=limits,
    )


def _secondary(datasets: Sequence[Mapping[str, Any]], inputs: Sequence[InputDataset]) -> tuple[SecondaryInput, ...]:
    """The datasets that follow the master, with their bytes."""
    n_bytes = {one.name: one.n_bytes for one in inputs if not one.is_master}
    return tuple(
        SecondaryInput(
            row["n_files"], n_bytes.get(row["dataset_name"], 0), row["n_events"], row.get("attributes") or {}
        )
        for row in datasets
        if not row["is_master"]
    )
