"""A simulated pilot takes ranges of events and reports them in zip files.

It ends when there are no more, or when its time is over.

Source: PanDA pilot protocol, event ranges.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

RANGES_AT_ONCE = 50
#: so many a job processes before its time is over, for each of its input files: others take the rest
RANGES_OF_FILE = 30
_BYTES_OF_RANGE = 100_000
TAKE, REPORT = "acquire_event_ranges", "update_event_ranges"


class RangeWork:
    """The ranges of one job; `call` says what is asked next, None when all are reported."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self._job_id, self._task_id = int(spec["PandaID"]), int(spec["taskID"])
        self._job_set_id = int(spec.get("jobsetID") or 0)
        self._taken: list[str] = []
        self._n_files, self._is_over = 0, False
        self._n_left = RANGES_OF_FILE * max(1, len(str(spec.get("inFiles") or "").split(",")))

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> RangeWork | None:
        """For a job that processes events in ranges; None for any other."""
        return cls(spec) if str(spec.get("eventService")) == "True" else None

    def call(self) -> tuple[str, dict[str, Any]] | None:
        """The method under /api/v1/event/ and its fields."""
        if self._is_over:
            return None
        if not self._taken:
            return TAKE, {
                "job_id": self._job_id, "task_id": self._task_id, "jobset_id": self._job_set_id,
                "n_ranges": min(RANGES_AT_ONCE, self._n_left),
            }  # fmt: skip
        return REPORT, {"event_ranges": [self._group()], "version": 1}

    def answered(self, data: Any) -> None:
        """The reply to the call: ranges, or that they were noted. A refusal means that there are none."""
        if self._taken:
            self._taken = []
            self._is_over = self._n_left <= 0
            return
        given: Sequence[Any] = data if isinstance(data, list) else ()
        self._taken = [str(one["eventRangeID"]) for one in given]
        self._n_files += 1
        self._n_left -= len(self._taken)
        self._is_over = not self._taken

    def _group(self) -> dict[str, Any]:
        name = f"EventService_premerge_{self._job_id}.{self._n_files}.zip"
        written = {
            "numEvents": len(self._taken), "objstoreID": 1, "lfn": name, "fsize": len(self._taken) * _BYTES_OF_RANGE,
            "pathConvention": 1000, "adler32": f"{zlib.adler32(name.encode()):08x}",
        }  # fmt: skip
        ranges = [{"eventRangeID": one, "eventStatus": "finished"} for one in self._taken]
        return {"zipFile": written, "eventRanges": ranges}
