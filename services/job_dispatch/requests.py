"""What pilots may say, field by field: names of the pilot interface, numbers as number or string.

The names of the older interface are accepted too (`jobId`, `state`, `xml`, ...). Unknown fields are ignored, as pilots
send many that nobody reads; a known field with an impossible value refuses the request.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from services.job_dispatch.activity import WorkerStatus
from services.job_dispatch.body import INNER, without_nul
from services.job_dispatch.policy.fitting import Offer, PilotKind
from services.job_dispatch.policy.reports import FINAL_REPORTED, REPORTED, Report
from shared.model.task_spec_problems import problem_of_error
from shared.web.json_text import TooMuch, parse_json_now

#: legacy status codes of the protocol
OK, TIMEOUT, NO_JOBS, FAILED, INVALID, ROLE = 0, 10, 20, 30, 50, 60
LARGEST_ID = 2**63 - 1
LARGEST_FILE_BYTES = 2**50  # sums over the files of a job, a dataset, a storage must stay whole numbers of 8 bytes
MOST_JOBS = 100
MOST_REPORTS = 1000
MOST_IDS = 10_000
NO_NAMES: Mapping[str, str] = {}

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


def _blank_is_none(value: Any) -> Any:
    return None if isinstance(value, str) and value.strip() in ("", "NULL", "None", "null") else value


def _whole(value: Any) -> Any:
    """7, 7.0, "7", "7.0" and " 7 " as 7; anything else is left for pydantic to refuse."""
    value = _blank_is_none(value)
    if isinstance(value, str):
        try:
            value = float(value) if not value.strip().lstrip("+-").isdigit() else int(value)
        except ValueError:
            return value
    if isinstance(value, float) and math.isfinite(value):
        return int(value)
    return value


Text = Annotated[str | None, BeforeValidator(lambda value: None if value is None else _blank_is_none(str(value)))]
Whole = Annotated[Annotated[int, Field(ge=-(2**63), le=LARGEST_ID)] | None, BeforeValidator(_whole)]
Amount = Annotated[Annotated[int, Field(ge=0, le=2**40)] | None, BeforeValidator(_whole)]
Traffic = Annotated[Annotated[int, Field(ge=-(2**60), le=2**60)] | None, BeforeValidator(_whole)]
Number = Annotated[
    Annotated[float, Field(ge=-1e12, le=1e12, allow_inf_nan=False)] | None, BeforeValidator(_blank_is_none)
]
Id = Annotated[int, BeforeValidator(_whole), Field(ge=1, le=LARGEST_ID)]
Name = Annotated[str, Field(min_length=1, max_length=200)]


class RequestFields(BaseModel):
    """Unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class AcquireJobs(RequestFields):
    """`acquire_jobs`: memory and disk_space in MB, remaining_time in seconds; 0 or absent means no limit."""

    site_name: Name
    n_jobs: Annotated[int, BeforeValidator(lambda value: 1 if _whole(value) is None else _whole(value)),
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


class UpdateJob(RequestFields):
    """`update_job`: sizes of memory in kB, of traffic in bytes, times in seconds."""

    job_id: Id
    job_status: Literal[REPORTED]  # type: ignore[valid-type]
    attempt_nr: Whole = None
    job_sub_status: Text = None
    job_output_report: Any = None
    meta_data: Any = None
    node: Text = None
    site_name: Text = None
    scheduler_id: Text = None
    pilot_id: Text = None
    batch_id: Text = None
    start_time: Text = None
    end_time: Text = None
    pilot_timing: Text = None
    pilot_log: Text = None
    job_metrics: Text = None
    corrupted_files: Text = None
    trans_exit_code: Whole = None
    pilot_error_code: Whole = None
    pilot_error_diag: Text = None
    exe_error_code: Whole = None
    exe_error_diag: Text = None
    n_events: Amount = None
    n_input_files: Amount = None
    core_count: Amount = None
    mean_core_count: Number = None
    cpu_consumption_time: Number = None
    cpu_consumption_unit: Text = None
    cpu_conversion_factor: Number = None
    cpu_architecture_level: Text = None
    max_rss: Amount = None
    max_vmem: Amount = None
    max_swap: Amount = None
    max_pss: Amount = None
    avg_rss: Amount = None
    avg_vmem: Amount = None
    avg_swap: Amount = None
    avg_pss: Amount = None
    tot_rchar: Traffic = None
    tot_wchar: Traffic = None
    tot_rbytes: Traffic = None
    tot_wbytes: Traffic = None

    def report(self) -> Report:
        """The report; what is stored is put together for final ones only. Raises BadRequest."""
        stored: dict[str, Any] = {}
        if self.job_status in FINAL_REPORTED:
            stored = self.model_dump(exclude_none=True, exclude={"job_id", "job_output_report", "meta_data"})
            for name in ("pilot_log", "pilot_error_diag", "exe_error_diag", "job_metrics"):
                if name in stored:
                    stored[name] = stored[name][:1024]
            stored["outputs"] = parse_outputs(self.job_output_report)
            stored["meta_data"] = _object("meta_data", self.meta_data, lenient=True)
        return Report(self.job_id, self.job_status, self.attempt_nr, stored)


class OutputFile(RequestFields):
    """One transferred file of a final report."""

    guid: Annotated[str, Field(max_length=64)] | None = None
    fsize: Annotated[int, BeforeValidator(_whole), Field(ge=0, le=LARGEST_FILE_BYTES)] = 0
    adler32: Annotated[str, Field(pattern="^[0-9a-fA-F]{1,8}$")] | None = None
    surl: Annotated[str, Field(max_length=2000)] | None = None
    endpoint: Annotated[str, Field(max_length=200)] | None = None


class WorkerUpdate(RequestFields):
    """`update_worker_status`."""

    worker_id: Annotated[int, BeforeValidator(_whole), Field(ge=0, le=LARGEST_ID)]
    harvester_id: Name
    site_name: Name
    status: Literal["started", "finished"]

    def worker(self) -> WorkerStatus:
        return WorkerStatus(self.harvester_id, self.worker_id, self.site_name, self.status)


def parse_outputs(value: Any) -> dict[str, Any]:
    """`job_output_report` (a JSON text despite the older name xml, or an object) as {lfn: file}. Raises BadRequest."""
    files = _object("job_output_report", value)
    found: dict[str, Any] = {}
    for lfn, entry in files.items():
        field = f"job_output_report.{lfn}"
        if not lfn or len(lfn) > 256 or not isinstance(entry, Mapping):
            raise BadRequest(FAILED, [_problem(field, entry, "a file name of at most 256 characters with an object")])
        cleaned = {key: _blank_is_none(item) for key, item in entry.items() if _blank_is_none(item) is not None}
        found[lfn] = _validated(OutputFile, cleaned, prefix=f"{field}.").model_dump(exclude_none=True)
    return found


def _object(field: str, value: Any, *, lenient: bool = False) -> dict[str, Any]:
    """An object given as such or as JSON text; `lenient` keeps a text that is no JSON instead of refusing it."""
    value = _blank_is_none(value)
    if value is None:
        return {}
    if isinstance(value, str):
        try:
            value = without_nul(parse_json_now(value.encode(), INNER))
        except TooMuch as error:
            if lenient:
                return {"text": value[:4096]}
            raise BadRequest(FAILED, [_problem(field, value, f"JSON within its limits: {error}")]) from None
        except ValueError:
            if lenient:
                return {"text": value[:4096]}
            raise BadRequest(FAILED, [_problem(field, value, "the JSON text of an object")]) from None
    if isinstance(value, dict):
        return value
    if lenient:
        return {"value": value}
    raise BadRequest(FAILED, [_problem(field, value, "an object or its JSON text")])


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
    return _validated(model, renamed, sent=sent)


def _validated(model: type[M], fields: Mapping[str, Any], prefix: str = "", sent: Mapping[str, str] = NO_NAMES) -> M:
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        problems = [_problem_of(one, sorted(model.model_fields), prefix, sent) for one in error.errors()]
        invalid = any(one["loc"] and one["loc"][0] in ("job_id", "job_status") for one in error.errors())
        raise BadRequest(INVALID if invalid and not prefix else FAILED, problems) from None


def _problem_of(error: Any, known: list[str], prefix: str, sent: Mapping[str, str]) -> dict[str, Any]:
    """One error of a validation as a sentence; an unknown field with the nearest names, or all of them."""
    first, *rest = (str(part) for part in error["loc"]) if error["loc"] else ("body",)
    field = prefix + ".".join([sent.get(first, first), *rest])
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
