"""`update_job` as pilots send it: an odd value costs its field, is noted in the report and counted.

Only a job id, state or attempt that cannot be refuses the report: a pilot does not send its final report again.

Lists of files are counted before they are read, and everything that is stored has a largest size.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, NoReturn

import orjson
from pydantic import BeforeValidator, ValidationError

from services.job_dispatch.api.body import INNER, without_nul
from services.job_dispatch.api.large_fields import left_out
from services.job_dispatch.api.requests import (
    LARGEST_FILE_BYTES,
    LEGACY_NAMES,
    Amount,
    Number,
    RequestFields,
    Traffic,
    Whole,
    refuse,
    whole,
)
from services.job_dispatch.policy.reports import FINAL_REPORTED, Report, ReportedStatus
from shared.web.json_text import parse_json_now
from shared.web.values import Id, absent

#: files in the list of one report; a job has far fewer outputs
MOST_FILES = 2000
#: characters of the list as JSON text
LONGEST_LIST = 1_000_000
LONGEST_TEXT = 1024
LONGEST_NAME = 256
#: bytes of the payload's own report that are kept
LARGEST_META_DATA_BYTES = 65_536
#: characters of a payload's output that are kept: its end
LONGEST_STDOUT = 65_536
MOST_NOTES, LONGEST_NOTE = 20, 120

#: what a report cannot do without
IDENTITY = ("job_id", "job_status", "attempt_nr")
OUTPUTS, META_DATA = "job_output_report", "meta_data"
#: fields of a report on a running job that are not kept: those that say which report it is, and those of its end
NO_PROGRESS = {
    *IDENTITY, OUTPUTS, META_DATA, "stdout", "end_time", "pilot_timing", "pilot_log", "trans_exit_code",
    "pilot_error_code", "pilot_error_diag", "exe_error_code", "exe_error_diag",
}  # fmt: skip
_HEX = frozenset("0123456789abcdefABCDEF")
_LONGEST = {"guid": 64, "surl": 1000, "endpoint": 200}


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
    """`update_job`: sizes of memory in kB, of traffic in bytes, times in seconds."""

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
    start_time: Shown = None
    end_time: Shown = None
    pilot_timing: Shown = None
    pilot_log: Shown = None
    job_metrics: Shown = None
    corrupted_files: Shown = None
    trans_exit_code: Whole = None
    pilot_error_code: Whole = None
    pilot_error_diag: Shown = None
    exe_error_code: Whole = None
    exe_error_diag: Shown = None
    stdout: Annotated[str | None, BeforeValidator(_end_of_text)] = None
    n_events: Amount = None
    n_input_files: Amount = None
    core_count: Amount = None
    mean_core_count: Number = None
    cpu_consumption_time: Number = None
    cpu_consumption_unit: Shown = None
    cpu_conversion_factor: Number = None
    cpu_architecture_level: Shown = None
    source_site: Shown = None
    destination_site: Shown = None
    grid: Shown = None
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
    rate_rchar: Traffic = None
    rate_wchar: Traffic = None
    rate_rbytes: Traffic = None
    rate_wbytes: Traffic = None


class Lost:
    """Fields that were not kept.

    `counted` has them by the names of the interface, `notes` with the value for people.
    """

    def __init__(self) -> None:
        self.counted: list[str] = []
        self.notes: dict[str, str] = {}

    def add(self, field: str, value: Any, of: str = "") -> None:
        """Note one; `of`: the file it belongs to. Of very many only the first are noted."""
        self.counted.append(field)
        if len(self.notes) < MOST_NOTES:
            self.notes[f"{field} of {of}"[:LONGEST_NAME] if of else field] = _shown(value)


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
    read = _read(renamed, sent, lost)
    stored: dict[str, Any] = {}
    progress: dict[str, Any] = {}
    if read.job_status not in FINAL_REPORTED:
        progress = read.model_dump(exclude_none=True, exclude=NO_PROGRESS)
    else:
        stored = read.model_dump(exclude_none=True, exclude={"job_id", "stdout", OUTPUTS, META_DATA})
        stored["outputs"] = read_outputs(read.job_output_report, lost)
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


def _refuse(fields: Mapping[str, Any], sent: Mapping[str, str]) -> NoReturn:
    """Say what is wrong with the identity, and only that."""
    identity = {key: value for key, value in fields.items() if key in IDENTITY}
    try:
        UpdateJob.model_validate(identity)
    except ValidationError as error:
        refuse(error, UpdateJob, sent)
    raise AssertionError("a report is refused for its identity only")


def read_outputs(value: Any, lost: Lost) -> dict[str, Any]:
    """`job_output_report` as {lfn: file}.

    It is an object, or a JSON text despite the older name xml. Nothing where it cannot be read, as no list never means
    "all".
    """
    value = absent(value)
    if value is None:
        return {}
    if isinstance(value, str):
        if len(value) > LONGEST_LIST or value.count("{") > MOST_FILES + 1:
            about = f"{len(value)} characters and about {value.count('{') - 1} files"
            lost.add(OUTPUTS, f"{about}; at most {LONGEST_LIST} and {MOST_FILES} are read")
            return {}
        # A text that is no JSON is noted as it was sent.
        parsed = _parsed(value)
        value = value if parsed is None else parsed
    if not isinstance(value, dict) or len(value) > MOST_FILES:
        lost.add(OUTPUTS, f"{len(value)} files; at most {MOST_FILES} are read" if isinstance(value, dict) else value)
        return {}
    found = {}
    for lfn, entry in value.items():
        if lfn and len(lfn) <= LONGEST_NAME and isinstance(entry, dict):
            found[lfn] = _file(lfn, entry, lost)
        elif not lfn or absent(entry) is not None:
            lost.add(OUTPUTS, entry, lfn or "a file without a name")
    return found


def _file(lfn: str, entry: Mapping[str, Any], lost: Lost) -> dict[str, Any]:
    """What is known of one transferred file."""
    found: dict[str, Any] = {}
    for name, longest in _LONGEST.items():
        value = absent(entry.get(name))
        if value is None:
            continue
        if isinstance(value, str) and len(value) <= longest:
            found[name] = value
        else:
            lost.add(name, value, lfn)
    size = whole(entry.get("fsize"))
    if isinstance(size, int) and not isinstance(size, bool) and 0 <= size <= LARGEST_FILE_BYTES:
        found["fsize"] = size
    elif size is not None:
        lost.add("fsize", size, lfn)
    checksum = absent(entry.get("adler32"))
    if isinstance(checksum, str) and 0 < len(checksum) <= 8 and _HEX.issuperset(checksum):
        found["adler32"] = checksum
    elif checksum is not None:
        lost.add("adler32", checksum, lfn)
    return found


def _meta_data(value: Any, lost: Lost) -> dict[str, Any]:
    """The payload's own report, parsed; a text that is no JSON is kept as it is. Nothing where it is too large."""
    value = absent(value)
    if value is None:
        return {}
    if isinstance(value, str):
        if len(value) > LARGEST_META_DATA_BYTES:
            lost.add(META_DATA, f"{len(value)} characters; at most {LARGEST_META_DATA_BYTES} are kept")
            return {}
        parsed = _parsed(value)
        if parsed is None:
            return {"text": value[: LONGEST_TEXT * 4]}
        value = parsed
    try:
        n_bytes = len(orjson.dumps(value))
    except TypeError:
        lost.add(META_DATA, "nested too deeply")
        return {}
    if n_bytes > LARGEST_META_DATA_BYTES:
        lost.add(META_DATA, f"{n_bytes} bytes; at most {LARGEST_META_DATA_BYTES} are kept")
        return {}
    return value if isinstance(value, dict) else {"value": value}


def _parsed(text: str) -> Any:
    """The value of a JSON text without the character NUL; None where it is no JSON, or beyond the limits."""
    try:
        value = parse_json_now(text.encode(), INNER)
    except ValueError:
        return None
    return without_nul(value) if "\\u0000" in text else value


def _shown(value: Any) -> str:
    """The beginning of a value, for a note: never all of a large one."""
    if isinstance(value, (dict, list)):
        return f"a {'list' if isinstance(value, list) else 'JSON object'} of {len(value)}"
    shown = value[:LONGEST_NOTE] if isinstance(value, str) else repr(value)
    return shown[:LONGEST_NOTE]
