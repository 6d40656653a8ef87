"""Makes reports as real pilots write them (PanDA pilot protocol: updateJob), with their odd types."""

from __future__ import annotations

import json
from typing import Any

from services.cli.simulated_pilots.payload import OUT_OF_MEMORY, PAYLOAD_FAILED, STAGE_OUT_FAILED, Payload
from services.cli.simulated_pilots.profile import Fault
from shared.states.job import JobStatus

PILOT_VERSION = "PR|3.11.5.1"
TERMINATED = 1201


def progress(payload: Payload, status: JobStatus, node: str, queue: str) -> dict[str, Any]:
    """`starting` and `running`; empty texts for what is known only at the end."""
    return {
        "job_id": str(payload.job_id),
        "job_status": status,
        "attempt_nr": payload.attempt_number,
        "site_name": queue,
        "node": node,
        "pilot_id": PILOT_VERSION,
        "core_count": payload.cores,
        "job_output_report": "",
        "meta_data": "",
    }


def final(payload: Payload, node: str, queue: str, *, terminated: bool = False) -> dict[str, Any]:
    """The last report of a job, as it ended; `terminated`: the pilot itself was told to go."""
    failed = terminated or payload.fault is not None
    report = progress(payload, "failed" if failed else "finished", node, queue)
    ran_s = payload.runs_s
    share = ran_s / payload.walltime_s if payload.walltime_s else 1.0
    report |= {
        "cpu_consumption_time": int(payload.cpu_s * share),
        "cpu_consumption_unit": "s+Simulated CPU @ 2.40GHz",
        "cpu_conversion_factor": 1.0,
        "mean_core_count": round(payload.cores * 0.95, 2),
        "max_pss": payload.max_pss_kb,
        "max_rss": int(payload.max_pss_kb * 1.1),
        "max_vmem": payload.max_pss_kb * 3,
        "avg_pss": int(payload.max_pss_kb * 0.8),
        "avg_rss": int(payload.max_pss_kb * 0.9),
        "tot_rbytes": int(sum(one.size_bytes for one in payload.outputs) * 1.5),
        "tot_wbytes": sum(one.size_bytes for one in payload.outputs),
        "pilot_timing": f"2|{int(payload.stage_in_s)}|{int(ran_s)}|{int(payload.stage_out_s)}|5|10",
    }
    if failed:
        return report | _errors(payload, terminated)
    if payload.n_events is not None:
        report["n_events"] = payload.n_events
    report["job_output_report"] = json.dumps(
        {
            one.lfn: {"guid": one.guid, "fsize": one.size_bytes, "adler32": one.adler32, "endpoint": one.endpoint}
            for one in payload.outputs
        }
    )
    report["meta_data"] = json.dumps(
        {
            "exitCode": 0,
            "exitMsg": "OK",
            "resource": {"transform": {"processedEvents": payload.n_events, "wallTime": int(ran_s)}},
            **({} if payload.returned is None else {"taskParameters": payload.returned}),
        }
    )
    return report


def malformed(report: dict[str, Any]) -> dict[str, Any]:
    """What a pilot with a full disk sends: the text of the outputs ends in the middle."""
    return {**report, "job_output_report": '{"broken": {"guid": "'}


def _errors(payload: Payload, terminated: bool) -> dict[str, Any]:
    if terminated:
        return {"pilot_error_code": TERMINATED, "pilot_error_diag": "Job killed by signal: SIGTERM"}
    if payload.fault is Fault.MEMORY:
        text = f"job has exceeded the memory limit {payload.max_pss_kb} kB"
        return {"pilot_error_code": OUT_OF_MEMORY, "pilot_error_diag": text, "trans_exit_code": 137}
    if payload.fault is Fault.STAGE_OUT:
        return {"pilot_error_code": STAGE_OUT_FAILED, "pilot_error_diag": "Failed to stage-out file"}
    return {
        "pilot_error_code": PAYLOAD_FAILED,
        "pilot_error_diag": "Failed to execute payload",
        "trans_exit_code": 65,
        "exe_error_code": 65,
        "exe_error_diag": "simulated failure of the payload",
    }
