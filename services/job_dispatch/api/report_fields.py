"""`update_job` as pilots send it: an odd value costs its field, is noted in the report and counted.

Only a job id, state or attempt that cannot be refuses the report: a pilot does not send its final report again.

Lists of files are counted before they are read, and everything that is stored has a largest size.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, NoReturn

import orjson
from pydantic import BeforeValidator, ValidationError

from services.job_dispatch.api.large_fields import left_out
from services.job_dispatch.api.measured import (
    MOMENT,
    TIMING,
    AddressedKb,
    Bytes,
    BytesPerSecond,
    Cores,
    CpuFactor,
    CpuSeconds,
    Events,
    ExitCode,
    Files,
    MeanCores,
    MemoryKb,
    believed_metrics,
)
from services.job_dispatch.api.reported_files import OUTPUTS, Lost, parsed, read_outputs
from services.job_dispatch.api.requests import LEGACY_NAMES, RequestFields, Whole, refuse
from services.job_dispatch.policy.reports import FINAL_REPORTED, Report, ReportedStatus
from shared.web.values import Id, absent

LONGEST_TEXT = 1024
#: bytes of the payload's own report that are kept
LARGEST_META_DATA_BYTES = 65_536
#: characters of a payload's output that are kept: its end
LONGEST_STDOUT = 65_536

#: what a report cannot do without
IDENTITY = ("job_id", "job_status", "attempt_nr")
META_DATA = "meta_data"
#: fields of a report on a running job that are not kept: those that say which report it is, and those of its end
NO_PROGRESS = {
    *IDENTITY, OUTPUTS, META_DATA, "stdout", "end_time", "pilot_timing", "pilot_log", "trans_exit_code",
    "pilot_error_code", "pilot_error_diag", "exe_error_code", "exe_error_diag",
}  # fmt: skip


def _text(value: Any) -> Any:
    """The beginning of a text; numbers and small objects as text. Raises ValueError for what cannot be shown."""
    value = absent(value)
    if value is None or isinstance(value, str):
        return value and value[:LONGEST_TEXT]
    if isinstance(value, (dict, list)):
        try:
            value = orjson.dumps(value).decode()
        except TypeError:
            raise ValueError("nested too deeply") from None
    return str(value)[:LONGEST_TEXT]


def _end_of_text(value: Any) -> Any:
    """The end of a text, where the latest is."""
    value = absent(value)
    return None if value is None else str(value)[-LONGEST_STDOUT:]


Shown = Annotated[str | None, BeforeValidator(_text)]


class UpdateJob(RequestFields):
    """`update_job`: memory in kB, traffic in bytes, times in seconds; their bounds are in `measured`."""

    job_id: Id
    job_status: ReportedStatus
    attempt_nr: Whole = None
    job_sub_status: Shown = None
    job_output_report: Any = None
    meta_data: Any = None
    node: Shown = None
    site_name: Shown = None
    scheduler_id: Shown = None
    pilot_id: Shown = None
    batch_id: Shown = None
    start_time: Annotated[Shown, MOMENT] = None
    end_time: Annotated[Shown, MOMENT] = None
    pilot_timing: Annotated[Shown, TIMING] = None
    pilot_log: Shown = None
    job_metrics: Shown = None
    corrupted_files: Shown = None
    trans_exit_code: ExitCode = None
    pilot_error_code: ExitCode = None
    pilot_error_diag: Shown = None
    exe_error_code: ExitCode = None
    exe_error_diag: Shown = None
    stdout: Annotated[str | None, BeforeValidator(_end_of_text)] = None
    n_events: Events = None
    n_input_files: Files = None
    core_count: Cores = None
    mean_core_count: MeanCores = None
    cpu_consumption_time: CpuSeconds = None
    cpu_consumption_unit: Shown = None
    cpu_conversion_factor: CpuFactor = None
    cpu_architecture_level: Shown = None
    source_site: Shown = None
    destination_site: Shown = None
    grid: Shown = None
    max_rss: MemoryKb = None
    max_vmem: AddressedKb = None
    max_swap: MemoryKb = None
    max_pss: MemoryKb = None
    avg_rss: MemoryKb = None
    avg_vmem: AddressedKb = None
    avg_swap: MemoryKb = None
    avg_pss: MemoryKb = None
    tot_rchar: Bytes = None
    tot_wchar: Bytes = None
    tot_rbytes: Bytes = None
    tot_wbytes: Bytes = None
    rate_rchar: BytesPerSecond = None
    rate_wchar: BytesPerSecond = None
    rate_rbytes: BytesPerSecond = None
    rate_wbytes: BytesPerSecond = None


def read_report(fields: Mapping[str, Any]) -> Report:
    """One report. Raises BadRequest for an impossible job id, state or attempt, and for nothing else."""
    renamed, sent, lost = {}, {}, Lost()
    for name, value in fields.items():
        field = LEGACY_NAMES.get(name, name)
        if field not in UpdateJob.model_fields:
            continue
        if (why := left_out(value)) is not None:
            lost.add(field, why)
        else:
            renamed[field], sent[field] = value, name
    read = _with_metrics(_read(renamed, sent, lost), lost)
    stored: dict[str, Any] = {}
    progress: dict[str, Any] = {}
    if read.job_status not in FINAL_REPORTED:
        progress = read.model_dump(exclude_none=True, exclude=NO_PROGRESS)
    else:
        stored = read.model_dump(exclude_none=True, exclude={"job_id", "stdout", OUTPUTS, META_DATA})
        stored["outputs"], unusable = read_outputs(read.job_output_report, lost)
        if unusable:
            stored["unusable_outputs"] = unusable
        stored["meta_data"] = _meta_data(read.meta_data, lost)
        if lost.notes:
            stored["lost_fields"] = lost.notes
    return Report(
        read.job_id, read.job_status, read.attempt_nr, stored, tuple(lost.counted), progress, read.stdout or None
    )


def _read(fields: dict[str, Any], sent: Mapping[str, str], lost: Lost) -> UpdateJob:
    """The report without the fields whose values cannot be."""
    try:
        return UpdateJob.model_validate(fields)
    except ValidationError as error:
        odd = sorted({str(one["loc"][0]) for one in error.errors(include_url=False) if one["loc"]})
        if not odd or any(field in IDENTITY for field in odd):
            _refuse(fields, sent)
        for field in odd:
            lost.add(field, fields[field])
        return UpdateJob.model_validate({key: value for key, value in fields.items() if key not in odd})


def _with_metrics(read: UpdateJob, lost: Lost) -> UpdateJob:
    """The report without the metrics whose numbers cannot be; its text stays as it is where all can."""
    kept, odd = believed_metrics(read.job_metrics or "")
    for name, value in odd.items():
        lost.add("job_metrics", value, name)
    return read.model_copy(update={"job_metrics": kept or None}) if odd else read


def _refuse(fields: Mapping[str, Any], sent: Mapping[str, str]) -> NoReturn:
    """Say what is wrong with the identity, and only that."""
    identity = {key: value for key, value in fields.items() if key in IDENTITY}
    try:
        UpdateJob.model_validate(identity)
    except ValidationError as error:
        refuse(error, UpdateJob, sent)
    raise AssertionError("a report is refused for its identity only")


def _meta_data(value: Any, lost: Lost) -> dict[str, Any]:
    """The payload's own report, parsed; a text that is no JSON is kept as it is. Nothing where it is too large."""
    value = absent(value)
    if value is None:
        return {}
    if isinstance(value, str):
        if len(value) > LARGEST_META_DATA_BYTES:
            lost.add(META_DATA, f"{len(value)} characters; at most {LARGEST_META_DATA_BYTES} are kept")
            return {}
        in_text = parsed(value)
        if in_text is None:
            return {"text": value[: LONGEST_TEXT * 4]}
        value = in_text
    try:
        n_bytes = len(orjson.dumps(value))
    except TypeError:
        lost.add(META_DATA, "nested too deeply")
        return {}
    if n_bytes > LARGEST_META_DATA_BYTES:
        lost.add(META_DATA, f"{n_bytes} bytes; at most {LARGEST_META_DATA_BYTES} are kept")
        return {}
    return value if isinstance(value, dict) else {"value": value}
