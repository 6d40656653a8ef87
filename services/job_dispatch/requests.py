"""What pilots may say, field by field: names of the pilot interface, numbers as number or string.

The names of the older interface are accepted too (`jobId`, `state`, `xml`, ...). Unknown fields are ignored, as pilots
send many that nobody reads; a known field with an impossible value refuses the request (reports: `report_fields`).
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NoReturn, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from services.job_dispatch.activity import WorkerStatus
from services.job_dispatch.policy.fitting import Offer, PilotKind
from shared.model.task_spec_problems import problem_of_error

#: legacy status codes of the protocol
OK, TIMEOUT, NO_JOBS, FAILED, INVALID, ROLE = 0, 10, 20, 30, 50, 60
LARGEST_ID = 2**63 - 1
LARGEST_FILE_BYTES = 2**50  # sums over the files of a job, a dataset, a storage must stay whole numbers of 8 bytes
MOST_JOBS = 100
MOST_REPORTS = 1000
MOST_IDS = 10_000

LEGACY_NAMES = {
    "siteName": "site_name", "diskSpace": "disk_space", "mem": "memory", "prodSourceLabel": "prod_source_label",
    "computingElement": "computing_element", "prodUserID": "prod_user_id", "taskID": "task_id",
    "resourceType": "resource_type", "nJobs": "n_jobs", "remainingTime": "remaining_time", "jobId": "job_id",
    "state": "job_status", "xml": "job_output_report", "metaData": "meta_data", "attemptNr": "attempt_nr",
    "pilotErrorCode": "pilot_error_code", "pilotErrorDiag": "pilot_error_diag", "transExitCode": "trans_exit_code",
    "exeErrorCode": "exe_error_code", "exeErrorDiag": "exe_error_diag", "pilotTiming": "pilot_timing",
    "cpuConsumptionTime": "cpu_consumption_time", "cpuConsumptionUnit": "cpu_consumption_unit",
    "cpuConversionFactor": "cpu_conversion_factor", "coreCount": "core_count", "meanCoreCount": "mean_core_count",
    "nEvents": "n_events", "nInputFiles": "n_input_files", "jobMetrics": "job_metrics", "pilotLog": "pilot_log",
    "startTime": "start_time", "endTime": "end_time", "schedulerID": "scheduler_id", "pilotID": "pilot_id",
    "batchID": "batch_id", "jobSubStatus": "job_sub_status", "corruptedFiles": "corrupted_files",
    "maxRSS": "max_rss", "maxVMEM": "max_vmem", "maxSWAP": "max_swap", "maxPSS": "max_pss", "avgRSS": "avg_rss",
    "avgVMEM": "avg_vmem", "avgSWAP": "avg_swap", "avgPSS": "avg_pss", "totRCHAR": "tot_rchar",
    "totWCHAR": "tot_wchar", "totRBYTES": "tot_rbytes", "totWBYTES": "tot_wbytes", "site": "site_name",
    "workerID": "worker_id", "harvesterID": "harvester_id",
}  # fmt: skip


class BadRequest(ValueError):
    """A request that changes nothing; `code` is the protocol's, `problems` one line per field."""

    def __init__(self, code: int, problems: list[dict[str, Any]]) -> None:
        super().__init__("; ".join(str(one["message"]) for one in problems))
        self.code = code
        self.problems = problems


def blank_is_none(value: Any) -> Any:
    return None if isinstance(value, str) and value.strip() in ("", "NULL", "None", "null") else value


def whole(value: Any) -> Any:
    """7, 7.0, "7", "7.0" and " 7 " as 7; anything else is left for pydantic to refuse."""
    value = blank_is_none(value)
    if isinstance(value, str):
        try:
            value = float(value) if not value.strip().lstrip("+-").isdigit() else int(value)
        except ValueError:
            return value
    if isinstance(value, float) and math.isfinite(value):
        return int(value)
    return value


Text = Annotated[str | None, BeforeValidator(lambda value: None if value is None else blank_is_none(str(value)))]
Whole = Annotated[Annotated[int, Field(ge=-(2**63), le=LARGEST_ID)] | None, BeforeValidator(whole)]
Amount = Annotated[Annotated[int, Field(ge=0, le=2**40)] | None, BeforeValidator(whole)]
Traffic = Annotated[Annotated[int, Field(ge=-(2**60), le=2**60)] | None, BeforeValidator(whole)]
Number = Annotated[
    Annotated[float, Field(ge=-1e12, le=1e12, allow_inf_nan=False)] | None, BeforeValidator(blank_is_none)
]
Id = Annotated[int, BeforeValidator(whole), Field(ge=1, le=LARGEST_ID)]
Name = Annotated[str, Field(min_length=1, max_length=200)]


class RequestFields(BaseModel):
    """Unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class AcquireJobs(RequestFields):
    """`acquire_jobs`: memory and disk_space in MB, remaining_time in seconds; 0 or absent means no limit."""

    site_name: Name
    n_jobs: Annotated[int, BeforeValidator(lambda value: 1 if whole(value) is None else whole(value)),
                      Field(ge=1, le=MOST_JOBS)] = 1  # fmt: skip
    prod_source_label: Text = None
    memory: Amount = None
    disk_space: Amount = None
    remaining_time: Amount = None
    resource_type: Text = None
    task_id: Whole = None
    node: Text = None
    computing_element: Text = None
    harvester_id: Text = None
    worker_id: Whole = None
    scheduler_id: Text = None

    def offer(self) -> Offer:
        """Disk and time are rounded down, so that few kinds of pilots exist; a job never gets less than it needs."""
        return Offer(
            queue=self.site_name,
            kind=PilotKind(
                prod_source_label=self.prod_source_label or "",
                resource_type=self.resource_type or "",
                memory_mb=self.memory or 0,
                disk_mb=_rounded(self.disk_space or 0, 100),
                remaining_s=_rounded(self.remaining_time or 0, 60),
            ),
            worker=self._worker(),
            task_id=self.task_id or None,
        )

    def _worker(self) -> str | None:
        if self.harvester_id and self.worker_id is not None:
            return f"{self.harvester_id}:{self.worker_id}"[:200]
        return self.node[:200] if self.node else None


def _rounded(value: int, step: int) -> int:
    """Down to a multiple, but never to 0, which would mean "no limit"."""
    return value // step * step if value >= step else value


class WorkerUpdate(RequestFields):
    """`update_worker_status`."""

    worker_id: Annotated[int, BeforeValidator(whole), Field(ge=0, le=LARGEST_ID)]
    harvester_id: Name
    site_name: Name
    status: Literal["started", "finished"]

    def worker(self) -> WorkerStatus:
        return WorkerStatus(self.harvester_id, self.worker_id, self.site_name, self.status)


M = TypeVar("M", bound=RequestFields)


def parse(model: type[M], fields: Mapping[str, Any]) -> M:
    """The request as a model. Raises BadRequest: code 50 for a job id or state that cannot be, 30 for the rest.

    Problems name each field as it was sent.
    """
    renamed, sent = {}, {}
    for name, value in fields.items():
        field = LEGACY_NAMES.get(name, name)
        field = field if field in model.model_fields else name
        renamed[field], sent[field] = value, name
    return _validated(model, renamed, sent)


def _validated(model: type[M], fields: Mapping[str, Any], sent: Mapping[str, str]) -> M:
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        refuse(error, model, sent)


def refuse(error: ValidationError, model: type[RequestFields], sent: Mapping[str, str]) -> NoReturn:
    """Raises BadRequest: every problem with its field as it was sent."""
    problems = [_problem_of(one, sorted(model.model_fields), sent) for one in error.errors()]
    invalid = any(one["loc"] and one["loc"][0] in ("job_id", "job_status", "attempt_nr") for one in error.errors())
    raise BadRequest(INVALID if invalid else FAILED, problems) from None


def _problem_of(error: Any, known: list[str], sent: Mapping[str, str]) -> dict[str, Any]:
    """One error of a validation as a sentence; an unknown field with the nearest names, or all of them."""
    first, *rest = (str(part) for part in error["loc"]) if error["loc"] else ("body",)
    field = ".".join([sent.get(first, first), *rest])
    problem = _problem(field, error.get("input"), problem_of_error(error, known).allowed.removeprefix("allowed: "))
    if error["type"] == "missing":
        return {**problem, "value": None, "allowed": "it must be given", "message": f"{field}: is missing"}
    if error["type"] == "extra_forbidden":
        by_lower = {name.lower(): name for name in known}
        near = difflib.get_close_matches(field.lower(), by_lower, n=3)
        names = ", ".join([by_lower[one] for one in near] or known)
        return {**problem, "allowed": names, "message": f"{field}: there is no such field; allowed: {names}"}
    if error["type"] == "value_error":
        return {**problem, "message": f"{field}: value {problem['value']} is not allowed: {problem['allowed']}"}
    return problem


def _problem(field: str, value: Any, allowed: str) -> dict[str, Any]:
    shown = repr(value)
    shown = shown if len(shown) <= 120 else f"{shown[:117]}..."
    return {
        "field": field,
        "value": shown,
        "allowed": allowed,
        "message": f"{field}: value {shown} is not allowed; allowed: {allowed}",
    }
