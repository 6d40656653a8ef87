"""One row of a task becomes the same request whoever asks, but for what is named here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest

from services.job_brokerage.policy.request import job_request as job_of_chunk
from services.task_brokerage.policy.request import job_request as job_of_assigning_task
from services.task_definition.tasks.policy.could_run import could_run, typical_job
from shared.brokerage.limits import JobLimits
from shared.brokerage.matchmaking import Advert
from shared.brokerage.request import InputDataset, JobRequest
from shared.brokerage.request_of_task import request_of_task
from shared.task.needs import needs_of_task
from tests.unit.brokerage.test_job_brokerage import ROW
from tests.unit.brokerage.worlds import NOW, a_queue, a_world

# Every column and rule that a request has is set, and to no default.
FULL = {
    **ROW, "prod_source_label": "test", "working_group": "AP_MCGN", "site": "A,B", "event_service": 1, "use_jumbo": "R",
    "architecture": "x86_64-el9-gcc13-opt", "trans_home": "Athena-1", "chunk_priority": 460, "chunk_ram_mb": 50_000,
    "split_rule": {
        "nFilesPerJob": 2, "mergeOutput": True, "dynamicNumEvents": 100, "t1Weight": -1, "fullChain": "only",
        "allowInputLAN": "only", "includedSite": ["A"], "excludedSite": ["BAD"], "useLocalIO": True,
        "samStations": "fnal", "requirements": "true", "groupBoundaryID": 1,
    },
}  # fmt: skip
# What a row of a task cannot say.
NOT_OF_A_TASK = {"chunk_id", "is_scout", "is_merge", "job", "n_jobs", "inputs", "limits", "site_adverts", "analysis"}
LIMITS, INPUTS = JobLimits(max_disk_io_kb_s=1.0), (InputDataset("mc.evnt", 10, 5000),)


def of_chunk(kind: str) -> Callable[[dict[str, Any]], JobRequest]:
    adverts = (Advert("A", 1, 1, 0, 0, 0, "", {}, NOW),)
    return lambda row: job_of_chunk({**row, "kind": kind, "chunk_queue": "HERE"}, INPUTS, LIMITS, NOW, None, adverts)


def of_assigning_task(row: dict[str, Any]) -> JobRequest:
    return job_of_assigning_task(row, ({"is_master": True, "n_files": 10, "n_events": 1000},), INPUTS, None, NOW)


def of_submitted_task(row: dict[str, Any]) -> JobRequest:
    return typical_job(row, 10, 1000, 5000, NOW)


def values(request: JobRequest) -> dict[str, Any]:
    return {one.name: getattr(request, one.name) for one in fields(JobRequest) if one.compare or one.name == "analysis"}


def test_the_row_of_this_table_sets_every_field_that_a_task_can_set() -> None:
    full = values(request_of_task(FULL, needs_of_task(FULL), NOW))
    unset = values(JobRequest(task_id=0, now=NOW, needs=needs_of_task({**ROW, "core_count": 1})))
    assert {name for name in full if full[name] == unset[name]} == NOT_OF_A_TASK | {"now", "is_analysis"}


@pytest.mark.parametrize(
    ("build", "differs"),
    [
        (of_chunk("normal"), {"chunk_id", "needs", "priority", "preassigned", "job", "n_jobs", "inputs", "limits",
                              "site_adverts"}),
        (of_chunk("scout"), {"chunk_id", "needs", "priority", "preassigned", "job", "n_jobs", "inputs", "limits",
                             "site_adverts", "is_scout"}),
        (of_chunk("merge"), {"chunk_id", "needs", "preassigned", "job", "limits", "site_adverts", "is_merge",
                             "is_pre_merged"}),
        (of_assigning_task, {"is_scout", "preassigned", "job"}),
        (of_submitted_task, {"job"}),
    ],
    ids=["normal chunk", "scout chunk", "merge chunk", "assigning task", "submitted task"],
)  # fmt: skip
def test_each_caller_changes_only_what_it_names(build: Callable[..., JobRequest], differs: set[str]) -> None:
    shared, built = values(request_of_task(FULL, needs_of_task(FULL), NOW)), values(build(FULL))
    assert {name for name in shared if shared[name] != built[name]} == differs


def test_a_submitted_task_brings_what_analysis_is_asked_only_if_it_is_analysis() -> None:
    row = {**FULL, "task_type": "anal", "prod_source_label": "user"}
    assert of_submitted_task(row).analysis is not None and of_submitted_task(FULL).analysis is None


@pytest.mark.parametrize(("event_service", "jobseed"), [(1, "es"), (0, "std")])
def test_a_task_of_event_service_could_run_only_where_the_queue_takes_it(event_service: int, jobseed: str) -> None:
    """PanDA brokerage asks every queue for its settings for event service: so does the check at submission."""
    world = a_world([a_queue("es", jobseed="es"), a_queue("std", jobseed="std")])
    row = {**ROW, "core_count": 1, "ram_count": 1000, "resource_type": "SCORE", "event_service": event_service}
    assert could_run(world, of_submitted_task(row)).chosen == (jobseed,)


@pytest.mark.parametrize(("use_jumbo", "used"), [(None, False), ("D", False), ("R", True)])
def test_jumbo_jobs_are_switched_on_unless_use_jumbo_is_unset_or_disabled(use_jumbo: str | None, used: bool) -> None:
    assert request_of_task({**ROW, "use_jumbo": use_jumbo}, needs_of_task(ROW), NOW).uses_jumbo == used
