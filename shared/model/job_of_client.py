"""A job in the words of PanDA's client: names of its JobSpec and FileSpec, times as text."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from shared.model.co_jumbo import shown_queue
from shared.states.job import JobStatus

_NAMES = {
    "job_id": "PandaID", "task_id": "jediTaskID", "status": "jobStatus", "queue": "computingSite",
    "resource_type": "resourceType", "gshare": "gshare", "user_name": "prodUserName",
    "prod_source_label": "prodSourceLabel", "job_type": "jobType", "current_priority": "currentPriority",
    "core_count": "coreCount", "attempt_number": "attemptNr", "creation_time": "creationTime",
    "state_change_time": "stateChangeTime", "start_time": "startTime", "end_time": "endTime",
    "error_source": "errorSource", "error_code": "errorCode", "error_dialog": "errorDialog",
    "job_sub_status": "jobSubStatus",
}  # fmt: skip
_REPORTED = {
    "cpu_consumption_time": "cpuConsumptionTime", "cpu_consumption_unit": "cpuConsumptionUnit",
    "cpu_conversion_factor": "cpuConversion", "trans_exit_code": "transExitCode",
    "pilot_error_code": "pilotErrorCode", "pilot_error_diag": "pilotErrorDiag", "exe_error_code": "exeErrorCode",
    "exe_error_diag": "exeErrorDiag", "pilot_timing": "pilotTiming", "pilot_id": "pilotID",
    "scheduler_id": "schedulerID", "batch_id": "batchID", "n_events": "nEvents", "job_metrics": "jobMetrics",
    "job_sub_status": "jobSubStatus", "max_rss": "maxRSS", "max_vmem": "maxVMEM", "max_swap": "maxSWAP",
    "max_pss": "maxPSS", "avg_rss": "avgRSS", "avg_vmem": "avgVMEM", "avg_swap": "avgSWAP", "avg_pss": "avgPSS",
    "tot_rchar": "totRCHAR", "tot_wchar": "totWCHAR", "tot_rbytes": "totRBYTES", "tot_wbytes": "totWBYTES",
}  # fmt: skip
#: FileSpec -> list in the text for the pilot
_INPUT = {
    "lfn": "inFiles", "dataset": "realDatasetsIn", "GUID": "GUID", "fsize": "fsize", "checksum": "checksum",
    "scope": "scopeIn", "destinationSE": "ddmEndPointIn",
}  # fmt: skip
_OUTPUT = {"lfn": "outFiles", "dataset": "realDatasets", "destinationSE": "ddmEndPointOut"}
#: the task's dataset or container is given with each file, where the pilot's text says so
_BLOCKS = {"destinationDBlock": "destinationDblock"}
_NOTHING = ("", "NULL")


def short_description(job: Mapping[str, Any]) -> dict[str, Any]:
    """What the pilot was given, as far as it is kept, and on top of it what became of the job."""
    known = {client: _text(job[column]) for column, client in _NAMES.items() if column in job}
    if "queue" in job:
        known["computingSite"] = shown_queue(job["queue"])
    return {**(job.get("spec") or {}), **known}


def whole_description(job: Mapping[str, Any]) -> dict[str, Any]:
    """The same with what the pilot reported, and `Files`: each with name, dataset, type, size and state.

    Example: a job with outFiles "a.txt,a.log.tgz" and logFile "a.log.tgz" has a file of type output and one of type
    log.
    """
    spec, report = job.get("spec") or {}, job.get("report") or {}
    reported = {client: report[name] for name, client in _REPORTED.items() if report.get(name) is not None}
    description = short_description(job) | reported
    if job.get("job_sub_status") is not None:
        description["jobSubStatus"] = job["job_sub_status"]  # as judged, whatever its pilot said before
    if "jobPars" in spec:
        description["jobParameters"] = spec["jobPars"]
    description |= {"VO": job.get("vo"), "metadata": report.get("meta_data") or None}
    description["Files"] = _inputs(spec) + _outputs(spec, report, job.get("status"))
    return description


def _inputs(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{**one, "type": "input", "status": "ready"} for one in _aligned(spec, _INPUT)]


def _outputs(spec: Mapping[str, Any], report: Mapping[str, Any], status: JobStatus | None) -> list[dict[str, Any]]:
    written = report.get("outputs") or {}
    found = []
    for one in _aligned(spec, _OUTPUT | _BLOCKS):
        told = written.get(one["lfn"]) or {}
        is_log = one["lfn"] == spec.get("logFile")
        found.append(
            {
                **one,
                "type": "log" if is_log else "output",
                "status": "ready" if status == "finished" else status,
                "scope": spec.get("scopeLog") if is_log else (spec.get("scopeOut") or "").partition(",")[0],
                "fsize": told.get("fsize"),
                "checksum": told.get("adler32") and f"ad:{told['adler32']}",
                "GUID": told.get("guid"),
            }
        )
    return found


def _aligned(spec: Mapping[str, Any], names: Mapping[str, str]) -> list[dict[str, Any]]:
    """Lists of the pilot's text, joined by commas and aligned, as one object for each file."""
    lists = {field: _list_of(spec.get(name)) for field, name in names.items()}
    n_files = len(lists["lfn"])
    fitting = {field: values for field, values in lists.items() if len(values) == n_files}
    return [{field: values[place] for field, values in fitting.items()} for place in range(n_files)]


def _list_of(value: Any) -> list[str]:
    return [] if value is None or value in _NOTHING else str(value).split(",")


def _text(value: Any) -> Any:
    return value.strftime("%Y-%m-%d %H:%M:%S") if isinstance(value, datetime) else value
