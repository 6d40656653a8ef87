"""What pilots say of ranges of events, field by field (PanDA pilot protocol: event ranges).

`eventRanges` is a list, or the JSON text of one. In it are ranges, or groups: ranges (`eventRanges`) that were written
to one file (`zipFile`; `esOutput` where each has an output of its own). What is odd in one range costs that range.
"""

from __future__ import annotations

import ast
import os.path
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from services.job_dispatch.api.body import INNER
from services.job_dispatch.api.measured import EVENTS
from services.job_dispatch.api.reported_files import LONGEST_NAME
from services.job_dispatch.api.requests import (
    FAILED,
    LARGEST_FILE_BYTES,
    BadRequest,
    RequestFields,
    Whole,
    shown,
    whole,
)
from services.job_dispatch.lifecycle.event_ranges import RangeReport
from services.job_dispatch.policy.event_ranges import RangeId, ReportedRangeStatus
from services.job_dispatch.store.event_ranges import WrittenFile
from shared.model.problems import FieldProblem
from shared.model.whole_numbers import LARGEST_INT4
from shared.web.json_text import parse_json_now
from shared.web.values import Id, absent, read_id

MOST_RANGES = 10_000
MOST_PAIRS = 1_000
LONGEST_DIAG = 500

#: "transferring" is what pilots say while an output is on its way
STATES: Mapping[str, ReportedRangeStatus] = {
    "running": "running", "transferring": "running", "finished": "finished", "failed": "failed", "fatal": "fatal",
}  # fmt: skip


def _or(default: int) -> BeforeValidator:
    return BeforeValidator(lambda value: default if absent(value) is None else whole(value))


#: an empty text is no id, and not the absence of one
TaskId = Annotated[Id | None, BeforeValidator(lambda value: value if value == "" else absent(value))]
Ranges = Annotated[int, _or(10), Field(ge=1, le=MOST_RANGES)]
Version = Annotated[int, _or(0), Field(ge=0, le=2)]


class AcquireEventRanges(RequestFields):
    """`acquire_event_ranges`: ranges of the input of a job.

    The ranges of a job are those of its input files, whatever the id of its jobset.
    """

    job_id: Id
    jobset_id: Whole = None
    task_id: TaskId = None
    n_ranges: Ranges = 10


class UpdateEventRanges(RequestFields):
    """`update_event_ranges`.

    `version`: 0 ranges, 1 groups with files, 2 the same where ranges may be reported before they were given out.
    """

    event_ranges: Annotated[Any, Field(description="a list, or its JSON text")]
    version: Version = 0


class UpdateSingleEventRange(RequestFields):
    """`update_single_event_range`."""

    event_range_id: Annotated[str, Field(max_length=120)]
    event_range_status: Annotated[str, Field(max_length=40)]
    object_store_id: Whole = None

    @property
    def report(self) -> RangeReport:
        """As one of a list."""
        said = {"eventRangeID": self.event_range_id, "eventStatus": self.event_range_status}
        return _one({**said, "objstoreID": self.object_store_id}, {}, None)


def reports_of(event_ranges: Any) -> list[RangeReport]:
    """Every range of a report, in the order of the answer. Raises BadRequest where there is no list."""
    found = [report for entry in _list_of(event_ranges) for report in _group(entry)]
    if len(found) > MOST_RANGES:
        raise _refused(f"{len(found)} ranges", f"at most {MOST_RANGES} ranges are")
    return found


def pairs_of(value: Any) -> list[tuple[int, int]]:
    """(task, job) of each pair in the query.

    `[{"task_id", "job_id" or "panda_id"}]` as JSON text, or as clients show Python lists. Raises BadRequest.
    """
    allowed = f'a list of at most {MOST_PAIRS} objects {{"task_id", "job_id"}} is'
    wanted = [one for part in (value if isinstance(value, list) else [value]) for one in _literal(part)]
    if not wanted or len(wanted) > MOST_PAIRS:
        raise _refused(shown(value), allowed, "job_task_ids")
    try:
        return [(read_id(one["task_id"]), read_id(one.get("job_id", one.get("panda_id")))) for one in wanted]
    except (AttributeError, KeyError, TypeError, ValueError):
        raise _refused(shown(value), allowed, "job_task_ids") from None


def _literal(text: Any) -> list[Any]:
    """The objects in a text: JSON, or Python's own way of writing it, as clients send lists in queries."""
    if not isinstance(text, str):
        return [text]
    try:
        found = parse_json_now(text.encode(errors="replace"), INNER)
    except ValueError:
        try:
            found = ast.literal_eval(text) if len(text) <= 100_000 else None
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            found = None
    return found if isinstance(found, list) else [found]


def _list_of(value: Any) -> list[Any]:
    if isinstance(value, str):
        try:
            value = parse_json_now(value.encode(errors="replace"), INNER)
        except ValueError:
            raise _refused(shown(value), "a list, or the JSON text of one, is") from None
    if isinstance(value, dict):
        value = [value]
    if not isinstance(value, list):
        raise _refused(shown(value), "a list, or the JSON text of one, is")
    return value


def _refused(value: str, allowed: str, field: str = "event_ranges") -> BadRequest:
    said = f"{field}: value {value} is not allowed; {allowed}"
    return BadRequest(FAILED, [FieldProblem(field, value, allowed, said)])


def _group(entry: Any) -> list[RangeReport]:
    """The ranges of a group; a range alone; one that is refused for what is neither."""
    if not isinstance(entry, dict) or not isinstance(entry.get("eventRanges"), list):
        return [_one(entry, {}, None)]
    for field, kind in (("zipFile", "zip"), ("esOutput", "output")):
        if isinstance(entry.get(field), dict):
            return [_one(one, entry[field], kind) for one in entry["eventRanges"]]
    return [_one(one, {}, None) for one in entry["eventRanges"]]


def _one(entry: Any, file: Mapping[str, Any], kind: str | None) -> RangeReport:
    said: Mapping[str, Any] = entry if isinstance(entry, dict) else {}
    range_id = RangeId.of(said.get("eventRangeID"))
    store = _number(said.get("objstoreID"), LARGEST_INT4)
    diag = absent(said.get("errorDiag"))
    return RangeReport(
        name=str(said.get("eventRangeID"))
        if "eventRangeID" in said
        else f"range {str(entry)[:80]} without eventRangeID",
        range_id=range_id,
        status=STATES.get(str(said.get("eventStatus"))),
        said_status=str(said.get("eventStatus"))[:80],
        error_code=_number(said.get("errorCode"), LARGEST_INT4),
        error_diag=None if diag is None else str(diag)[:LONGEST_DIAG],
        obj_store_id=store if store is not None else _number(file.get("objstoreID"), LARGEST_INT4),
        file=_written(range_id, said, file, kind) if range_id is not None and kind is not None else None,
    )


def _written(range_id: RangeId, said: Mapping[str, Any], file: Mapping[str, Any], kind: str) -> WrittenFile | None:
    """The file of a group, or where it names none, the output of the range itself (`pfn`)."""
    own = not file.get("lfn")
    lfn = os.path.basename(str(said.get("pfn") or "")) if own else str(file["lfn"])
    if not 0 < len(lfn) <= LONGEST_NAME:
        return None
    adler32 = (said if own else file).get("adler32")
    return WrittenFile(
        task_id=range_id.task_id,
        job_id=range_id.job_id,
        kind=kind,
        lfn=lfn,
        obj_store_id=_number(file.get("objstoreID"), LARGEST_INT4),
        size_bytes=_number((said if own else file).get("fsize"), LARGEST_FILE_BYTES),
        adler32=adler32 if isinstance(adler32, str) and 0 < len(adler32) <= 8 else None,
        n_events=1 if own else _number(file.get("numEvents"), int(EVENTS.most)),
        path_convention=_number(file.get("pathConvention"), LARGEST_INT4),
    )


def _number(value: Any, largest: int) -> int | None:
    """A number from 0 on as number or text; None for anything else."""
    if value is None:
        return None
    number = whole(value)
    return number if type(number) is int and 0 <= number <= largest else None
