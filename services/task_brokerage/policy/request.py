"""A task's row as the value that the policies read. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from shared.brokerage.limits import TaskLimits
from shared.brokerage.nucleus import RemainingWork, TaskRequest
from shared.brokerage.request import InputDataset, JobRequest
from shared.brokerage.request_of_task import request_of_task
from shared.brokerage.smallest_job import Boundary, SecondaryInput, SmallestJob, smallest_job
from shared.task.in_effect import SplitRules, rules_of
from shared.task.needs import needs_of_task


def job_request(
    row: Mapping[str, Any],
    datasets: Sequence[Mapping[str, Any]],
    inputs: Sequence[InputDataset],
    boundary: Boundary | None,
    now: datetime,
) -> JobRequest:
    """The typical job of an assigning task: a scout, if it has any.

    Only scouts run at the nucleus alone. Where a boundary is one job, it is the job of the largest `boundary`.

    Raises UnknownUnit, InvalidArchitecture or ValueError if the task's needs make no sense.
    """
    rules = rules_of(row["split_rule"])
    return replace(
        request_of_task(row, needs_of_task(row), now),
        # Scouts come first, and what they ask more than others the nucleus must have.
        is_scout=not rules.skip_scout,
        # The queue that is asked for is one of the nucleus, which the sites that a task names need not be: only a task
        # that was reassigned without a target is here and names any.
        preassigned=(),
        # The task's input is known by its datasets, not yet by chunks.
        job=_typical_job(rules, datasets, inputs, boundary),
    )


def _typical_job(
    rules: SplitRules,
    datasets: Sequence[Mapping[str, Any]],
    inputs: Sequence[InputDataset],
    boundary: Boundary | None,
) -> SmallestJob:
    masters = [one for one in datasets if one["is_master"]]
    return smallest_job(
        rules,
        sum(one["n_files"] for one in masters),
        sum(one["n_events"] for one in masters),
        sum(one.n_bytes for one in inputs if one.is_master),
        secondary=_secondary(datasets, inputs),
        boundary=boundary,
    )


def task_request(
    row: Mapping[str, Any],
    job: JobRequest,
    inputs: tuple[InputDataset, ...],
    remaining_work: Mapping[str, RemainingWork],
    limits: TaskLimits,
) -> TaskRequest:
    """The request for one assigning task with its typical job."""
    rules = rules_of(row["split_rule"])
    return TaskRequest(
        task_id=job.task_id,
        now=job.now,
        job=job,
        priority=job.priority,
        gshare=job.gshare,
        io_intensity_kb_s=job.needs.io_intensity_kb_s,
        t1_weight=job.t1_weight,
        local_on_master=rules.task_broker_on_master,
        input_pre_staging=rules.input_pre_staging,
        full_chain=job.full_chain,
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
