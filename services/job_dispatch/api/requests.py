"""What pilots may say, field by field: names of the pilot interface, numbers as number or string.

The names of the older interface are accepted too (`jobId`, `state`, `xml`, ...). Unknown fields are ignored, as pilots
send many that nobody reads; a known field with an impossible value refuses the request (reports: `report_fields`).
"""

from __future__ import annotations

import difflib
import hashlib
import math
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, NoReturn, TypeVar

import orjson
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from services.job_dispatch.policy.fitting import Offer
from services.job_dispatch.policy.workers import WorkerStatus
from shared.model.problems import FieldProblem
from shared.model.task_spec_problems import problem_of_error
from shared.model.whole_numbers import LARGEST_ID, LARGEST_INT8
from shared.order.matching import BANNABLE, TaskQueueOffer, offered_tags, required_beyond_offered
from shared.web.problems import WrongRequest
from shared.web.values import absent, ids_of

#: legacy status codes of the protocol
OK, TIMEOUT, NO_JOBS, FAILED, INVALID, ROLE, PERMISSION, MISSING_KEY, PROXY_ERROR = 0, 10, 20, 30, 50, 60, 70, 80, 90
LARGEST_FILE_BYTES = 2**50  # sums over the files of a job, a dataset, a storage must stay whole numbers of 8 bytes
MOST_JOBS = 100
MOST_REPORTS = 1000

LEGACY_NAMES = {
    "siteName": "site_name", "diskSpace": "disk_space", "mem": "memory", "prodSourceLabel": "prod_source_label",
    "computingElement": "computing_element", "prodUserID": "prod_user_id",
    "workingGroup": "working_group", "taskID": "task_id",
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
    "totWCHAR": "tot_wchar", "totRBYTES": "tot_rbytes", "totWBYTES": "tot_wbytes",
    "rateRCHAR": "rate_rchar", "rateWCHAR": "rate_wchar", "rateRBYTES": "rate_rbytes", "rateWBYTES": "rate_wbytes",
    "site": "site_name", "workerID": "worker_id", "harvesterID": "harvester_id", "pandaID": "job_id", "modeOn": "mode",
    "publicKeyName": "public_key_name", "privateKeyName": "private_key_name", "jobsetID": "jobset_id",
    "nRanges": "n_ranges", "eventRanges": "event_ranges",
}  # fmt: skip


class BadRequest(WrongRequest):
    """A request that changes nothing; `code` is the protocol's."""

    def __init__(self, code: int, problems: Iterable[FieldProblem]) -> None:
        super().__init__(problems)
        self.code = code

    @property
    def data(self) -> dict[str, Any]:
        listed = [one.as_sent() for one in self.problems]
        return {"StatusCode": self.code, "errorDialog": str(self), "problems": listed}


class BadBody(BadRequest):
    """The body cannot be understood; the text says why."""

    def __init__(self, text: str) -> None:
        super().__init__(FAILED, [FieldProblem("body", "", text, text)])


def job_ids_of(value: Any, field: str = "job_ids") -> list[int]:
    """Ids of jobs as repeated keys, a list, or text separated by commas. Raises BadRequest."""
    try:
        return ids_of(value, field)
    except WrongRequest as error:
        raise BadRequest(INVALID, error.problems) from None


def whole(value: Any) -> Any:
    """7, 7.0, "7", "7.0" and " 7 " as 7; anything else is left for pydantic to refuse."""
    value = absent(value)
    if isinstance(value, str):
        try:
            value = float(value) if not value.strip().lstrip("+-").isdigit() else int(value)
        except ValueError:
            return value
    if isinstance(value, float) and math.isfinite(value):
        return int(value)
    return value


Text = Annotated[str | None, BeforeValidator(lambda value: None if value is None else absent(str(value)))]
Whole = Annotated[Annotated[int, Field(ge=-LARGEST_INT8 - 1, le=LARGEST_INT8)] | None, BeforeValidator(whole)]
Amount = Annotated[Annotated[int, Field(ge=0, le=2**40)] | None, BeforeValidator(whole)]
Name = Annotated[str, Field(min_length=1, max_length=200)]


def _names(value: Any) -> Any:
    """A list, or a text with commas."""
    if absent(value) is None:
        return ()
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _banned(value: Any) -> Any:
    """{field: value or list of values} as pairs."""
    value = orjson.loads(value) if isinstance(value, str) and absent(value) is not None else absent(value)
    if value is None:
        return ()
    unknown = sorted(set(value) - set(BANNABLE)) if isinstance(value, dict) else [repr(value)[:80]]
    if unknown:
        raise ValueError(
            f"{', '.join(map(str, unknown))} cannot be banned; allowed: an object with {', '.join(BANNABLE)}"
        )
    return [(field, str(one)) for field, listed in value.items() for one in _names(listed)]


Tags = Annotated[tuple[Annotated[str, Field(min_length=1, max_length=100)], ...], BeforeValidator(_names)]
Flag = Annotated[bool, BeforeValidator(lambda value: False if absent(value) is None else value)]
Banned = Annotated[tuple[tuple[str, str], ...], BeforeValidator(_banned)]
#: what a pilot says to task queues only
TASK_QUEUE_FIELDS = frozenset(
    {"tags", "required_tags", "platform", "task_queue_job_type", "cpu_time", "max_ram", "number_of_processors",
     "whole_node", "banned"}
)  # fmt: skip


class RequestFields(BaseModel):
    """Unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class AcquireJobs(RequestFields):
    """`acquire_jobs`: memory and disk_space in MB, remaining_time in seconds; 0 or absent means no limit.

    `task_id`, `prod_user_id` and `working_group` narrow the choice. What else pilots send (cpu, timeout, background,
    job_type, country_group, via_topic, ...) decides nothing: the label, the shares and the queue do.

    `tags` to `banned` are for the task queues of VOs that use them: cpu_time in s, max_ram in MB, `banned` by field
    ({"user_name": ["ann"]}). Raises BadRequest for required tags that are not offered.
    """

    site_name: Name
    n_jobs: Annotated[
        int, BeforeValidator(lambda value: 1 if whole(value) is None else whole(value)), Field(ge=1, le=MOST_JOBS)
    ] = 1
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
    prod_user_id: Text = None
    working_group: Text = None
    tags: Tags = ()
    required_tags: Tags = ()
    platform: Text = None
    task_queue_job_type: Text = None
    cpu_time: Amount = None
    max_ram: Amount = None
    number_of_processors: Amount = None
    whole_node: Flag = False
    banned: Banned = ()

    def task_queues(self) -> TaskQueueOffer | None:
        """What it offers to task queues; None: nothing. Raises BadRequest."""
        if not self.model_fields_set & TASK_QUEUE_FIELDS:
            return None
        max_ram_mb, n_processors = self.max_ram or 0, self.number_of_processors or 0
        tags = offered_tags(self.tags, max_ram_mb=max_ram_mb, n_processors=n_processors, whole_node=self.whole_node)
        missing = required_beyond_offered(tags | offered_tags(max_ram_mb=self.memory or 0), self.required_tags)
        if missing:
            shown_tags, allowed = ", ".join(missing), "those that are offered as tags, too, are"
            said = f"required_tags: value {shown_tags} is not allowed; {allowed}"
            raise BadRequest(FAILED, [FieldProblem("required_tags", shown_tags, allowed, said)])
        return TaskQueueOffer(
            cpu_time_s=self.cpu_time or None,
            platform=self.platform,
            job_type=self.task_queue_job_type,
            tags=tags,
            required_tags=frozenset(self.required_tags),
            banned=frozenset(self.banned),
        )


class WorkerUpdate(RequestFields):
    """`update_worker_status`."""

    worker_id: Annotated[int, BeforeValidator(whole), Field(ge=0, le=LARGEST_ID)]
    harvester_id: Name
    site_name: Name
    status: Literal["started", "finished"]

    def worker(self, subject: str, *, is_trusted: bool, vos: frozenset[str] | None) -> WorkerStatus:
        said = (self.harvester_id, self.worker_id, self.site_name, self.status)
        return WorkerStatus(*said, subject, is_trusted, vos=vos)


def request_key(caller: str, offer: Offer, key: str) -> str:
    """What identifies a request among all; `offer`: as it was restricted to what the caller may have.

    Two pilots that count their requests from 1 must not get one job, also if they share a token, and one name with
    tokens of two VOs or of two roles is two callers. The scope of a key is its caller, the VOs, label and user whose
    jobs the caller may have, the queue and the worker (the node where no worker is named). It is a digest, because each
    of them may be long.
    """
    kind = offer.kind
    may_have = [None if kind.vos is None else sorted(kind.vos), kind.prod_source_label, offer.user_name]
    scope = orjson.dumps([caller, may_have, offer.queue, offer.worker, key])
    return hashlib.blake2b(scope, digest_size=20).hexdigest()


M = TypeVar("M", bound=RequestFields)


def parse(model: type[M], fields: Mapping[str, Any]) -> M:
    """The request as a model.

    Raises BadRequest: code 50 for an impossible job id or state, 30 for the rest.

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


def parse_known(model: type[M], fields: Mapping[str, Any]) -> tuple[M, list[FieldProblem]]:
    """The request without optional fields that cannot be, and what is wrong with these. Raises BadRequest."""
    try:
        return parse(model, fields), []
    except BadRequest as error:
        odd = {one.field for one in error.problems}
        required = {name for name, one in model.model_fields.items() if one.is_required()}
        if odd & required or odd & {sent for sent in fields if LEGACY_NAMES.get(sent) in required}:
            raise
        return parse(model, {name: value for name, value in fields.items() if name not in odd}), list(error.problems)


def refuse(error: ValidationError, model: type[RequestFields], sent: Mapping[str, str]) -> NoReturn:
    """Raises BadRequest: every problem with its field as it was sent."""
    problems = [_problem_of(one, sorted(model.model_fields), sent) for one in error.errors()]
    invalid = any(one["loc"] and one["loc"][0] in ("job_id", "job_status", "attempt_nr") for one in error.errors())
    raise BadRequest(INVALID if invalid else FAILED, problems) from None


def _problem_of(error: Any, known: list[str], sent: Mapping[str, str]) -> FieldProblem:
    """One error of a validation as a sentence; an unknown field with the nearest names, or all of them."""
    first, *rest = (str(part) for part in error["loc"]) if error["loc"] else ("body",)
    field = ".".join([sent.get(first, first), *rest])
    if error["type"] == "missing":
        return FieldProblem(field, "", "it must be given", f"{field}: is missing")
    value = shown(error.get("input"))
    if error["type"] == "extra_forbidden":
        by_lower = {name.lower(): name for name in known}
        near = difflib.get_close_matches(field.lower(), by_lower, n=3)
        names = ", ".join([by_lower[one] for one in near] or known)
        return FieldProblem(field, value, names, f"{field}: there is no such field; allowed: {names}")
    allowed = problem_of_error(error, known).allowed.removeprefix("allowed: ")
    mark = ":" if error["type"] == "value_error" else "; allowed:"
    return FieldProblem(field, value, allowed, f"{field}: value {value} is not allowed{mark} {allowed}")


def shown(value: Any) -> str:
    """A value as a problem repeats it."""
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 120 else f"{text[:117]}..."
