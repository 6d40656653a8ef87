"""What a pilot's final report says, as it is stored in `job_reports.report` and read by services.

Keys of the stored object are the names of the pilot interface (`update_job`): `max_pss`, `cpu_consumption_time`, ...
Numbers are numbers there, whatever the pilot sent; absent keys were not reported. Two keys hold objects:

* `outputs` (the pilot's `job_output_report`): {lfn: {"guid", "fsize", "adler32", "md5sum", "surl", "endpoint"}} of
  the files that were transferred, the log included; `fsize` in bytes, checksums as hexadecimal text;
* `meta_data`: the payload's own report, parsed; {} when there was none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

#: a payload that ran out of memory: the next attempt needs more (pilot error codes)
OUT_OF_MEMORY_CODES = frozenset({1212, 1223, 1235})
LONGEST_TIME_DIGITS = 9


@dataclass(frozen=True)
class ReportedFile:
    """One transferred output."""

    lfn: str
    guid: str | None
    size_bytes: int
    adler32: str | None
    storage: str | None = None
    md5: str | None = None

    @property
    def checksum(self) -> str | None:
        """In the catalogue's form, `ad:<adler32>` or `md5:<md5>`."""
        if self.adler32 is not None:
            return f"ad:{self.adler32}"
        return None if self.md5 is None else f"md5:{self.md5}"


@dataclass(frozen=True)
class JobReport:
    """A stored final report with units in the names; None where the pilot did not say."""

    state: str
    outputs: tuple[ReportedFile, ...] = ()
    n_events: int | None = None
    core_count: int | None = None
    cpu_time_s: float | None = None
    max_pss_kb: int | None = None
    max_rss_kb: int | None = None
    avg_pss_kb: int | None = None
    read_bytes: int | None = None
    written_bytes: int | None = None
    pilot_error_code: int = 0
    pilot_error_diag: str = ""
    trans_exit_code: int = 0
    exe_error_code: int = 0
    exe_error_diag: str = ""
    timing_s: tuple[int, ...] = ()
    meta_data: Mapping[str, Any] = field(default_factory=dict)
    job_metrics: str = ""

    def metric(self, name: str) -> float | None:
        """A number of the pilot's metrics (`job_metrics`: "name=value name=value"); None where it is none."""
        for part in self.job_metrics.split():
            key, separator, value = part.partition("=")
            if separator and key == name:
                try:
                    return float(value)
                except ValueError:
                    return None
        return None

    @property
    def memory_kb(self) -> int | None:
        """PSS where measured, else RSS."""
        return self.max_pss_kb if self.max_pss_kb else self.max_rss_kb

    @property
    def out_of_memory(self) -> bool:
        return self.pilot_error_code in OUT_OF_MEMORY_CODES

    @classmethod
    def from_stored(cls, report: Mapping[str, Any]) -> JobReport:
        """From the jsonb value of `job_reports.report`."""
        outputs = report.get("outputs") or {}
        return cls(
            state=str(report.get("job_status", "")),
            outputs=tuple(
                ReportedFile(
                    lfn=lfn,
                    guid=entry.get("guid"),
                    size_bytes=int(entry.get("fsize") or 0),
                    adler32=entry.get("adler32"),
                    storage=entry.get("endpoint"),
                    md5=entry.get("md5sum"),
                )
                for lfn, entry in sorted(outputs.items())
            ),
            n_events=report.get("n_events"),
            core_count=report.get("core_count"),
            cpu_time_s=report.get("cpu_consumption_time"),
            max_pss_kb=report.get("max_pss"),
            max_rss_kb=report.get("max_rss"),
            avg_pss_kb=report.get("avg_pss"),
            read_bytes=report.get("tot_rbytes"),
            written_bytes=report.get("tot_wbytes"),
            pilot_error_code=int(report.get("pilot_error_code") or 0),
            pilot_error_diag=str(report.get("pilot_error_diag") or ""),
            trans_exit_code=int(report.get("trans_exit_code") or 0),
            exe_error_code=int(report.get("exe_error_code") or 0),
            exe_error_diag=str(report.get("exe_error_diag") or ""),
            timing_s=_timing(report.get("pilot_timing")),
            meta_data=report.get("meta_data") or {},
            job_metrics=str(report.get("job_metrics") or ""),
        )


def _timing(text: Any) -> tuple[int, ...]:
    """`pilot_timing` in its parts; nothing where that is not what the pilot wrote.

    The parts are get job, stage-in, payload, stage-out, initial set-up, set-up; seconds joined by bars. A report is
    read together with others, and must not make them fail.
    """
    parts = [part.strip() for part in str(text or "").split("|")]
    if not all(part.isascii() and part.isdigit() and len(part) <= LONGEST_TIME_DIGITS for part in parts):
        return ()
    return tuple(map(int, parts))
