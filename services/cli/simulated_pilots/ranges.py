"""A simulated pilot takes ranges of events and reports them in zip files.

Points of hyper-parameters it reports one by one, each with an output of its own. It ends when there are no more, or
when its time is over.

Source: PanDA pilot protocol, event ranges.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

RANGES_AT_ONCE = 50
#: so many a job processes before its time is over, for each of its input files: others take the rest
RANGES_OF_FILE = 30
POINTS_AT_ONCE, POINTS_OF_JOB = 1, 5
_BYTES_OF_RANGE = 100_000
TAKE, REPORT = "acquire_event_ranges", "update_event_ranges"


class RangeWork:
    """The ranges of one job; `call` says what is asked next, None when all are reported."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self._job_id, self._task_id = int(spec["PandaID"]), int(spec["taskID"])
        self._job_set_id = int(spec.get("jobsetID") or 0)
        self._taken: list[str] = []
        self._n_files, self._is_over = 0, False
        n_files = max(1, len(str(spec.get("inFiles") or "").split(",")))
        self._is_search = str(spec.get("isHPO")) == "True"
        self._n_left = POINTS_OF_JOB if self._is_search else RANGES_OF_FILE * n_files
        self._at_once = POINTS_AT_ONCE if self._is_search else RANGES_AT_ONCE

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> RangeWork | None:
        """For a job that processes events in ranges, or evaluates points; None for any other."""
        has_ranges = "True" in (str(spec.get("eventService")), str(spec.get("isHPO")))
        return cls(spec) if has_ranges else None

    def call(self) -> tuple[str, dict[str, Any]] | None:
        """The method under /api/v1/event/ and its fields."""
        if self._is_over:
            return None
        if not self._taken:
            return TAKE, {
                "job_id": self._job_id, "task_id": self._task_id, "jobset_id": self._job_set_id,
                "n_ranges": min(self._at_once, self._n_left),
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
        if self._is_search:  # each point has an output of its own
            points = [{"eventRangeID": one, "eventStatus": "finished", "pfn": f"{one}.json"} for one in self._taken]
            return {"esOutput": {"numEvents": len(points), "objstoreID": 1}, "eventRanges": points}
        name = f"EventService_premerge_{self._job_id}.{self._n_files}.zip"
        written = {
            "numEvents": len(self._taken), "objstoreID": 1, "lfn": name, "fsize": len(self._taken) * _BYTES_OF_RANGE,
            "pathConvention": 1000, "adler32": f"{zlib.adler32(name.encode()):08x}",
        }  # fmt: skip
        ranges = [{"eventRangeID": one, "eventStatus": "finished"} for one in self._taken]
        return {"zipFile": written, "eventRanges": ranges}
