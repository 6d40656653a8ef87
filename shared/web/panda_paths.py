"""Every path of PanDA's server: which are carried out, and why the others are not.

Some are only answered.

The paths are those of panda-server, of today (`/api/v1`) and of the interface before (`/server/panda`). One that is
not carried out is refused by its name with its reason. `deploy/panda_api.md` is made of this table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

API, LEGACY = "/api/v1", "/server/panda"

#: what is carried out, by module
CARRIED_OUT: Mapping[str, tuple[str, ...]] = {
    f"{API}/creds": ("set_user_secrets", "get_user_secrets", "get_access_token"),
    f"{API}/event": (
        "get_available_event_range_count", "get_event_range_statuses", "acquire_event_ranges",
        "update_single_event_range", "update_event_ranges",
    ),
    f"{API}/file_server": ("upload_cache_file", "validate_cache_file", "upload_file_recovery_request"),
    f"{API}/harvester": ("update_workers", "add_target_slots"),
    f"{API}/job": (
        "get_status", "get_description", "get_description_incl_archive", "get_metadata_for_analysis_jobs", "kill",
        "set_command", "set_debug_mode", "submit",
    ),
    f"{API}/pilot": (
        "acquire_jobs", "get_job_status", "update_job", "update_jobs_bulk", "update_worker_status",
        "update_worker_node", "update_worker_node_gpu",
    ),
    f"{API}/statistics": ("active_job_stats_by_site",),
    f"{API}/system": ("get_attributes", "is_alive"),
    f"{API}/task": (
        "retry", "resume", "release", "reassign", "pause", "kill", "finish", "reactivate", "avalanche",
        "reload_input", "increase_attempts", "get_status", "get_details", "change_priority", "change_split_rule",
        "get_tasks_modified_since", "get_tasks_detailed_info_since", "get_datasets_and_files", "get_job_ids",
        "submit", "get_task_parameters", "get_detailed_info", "get_parent_detailed_info", "get_job_descriptions",
        "change_attribute", "enable_jumbo_jobs", "enable_job_cloning", "disable_job_cloning",
    ),
    LEGACY: (
        "getJob", "updateJob", "getStatus", "getEventRanges", "updateEventRanges", "getKeyPair", "getProxy",
        "get_access_token", "getResourceTypes", "updateWorkerPilotStatus", "setDebugMode", "get_user_secrets",
    ),
}  # fmt: skip

_LOGS = "logs of brokerage are not files here; orrery explain task ID, /api/v1/explain"
_IDDS = "no iDDS service stands behind this server; a task for each step, later ones with parent_tid"
_CAROUSEL = "input on tape is asked for by the task itself (inputPreStaging); no request is changed by hand"
_HARVESTER = "this call of Harvester is not served; update_workers and update_worker_status are"
_STATISTICS = "counts are given by queue, resource type and state: /api/v1/statistics/active_job_stats_by_site"
_PROBES = "the server runs no commands of others on its machine; /readyz tells its health"
_GRID = "orrery grid and /cache/schedconfig.json tell queues"
_CERTIFICATES = "no VOMS attributes are read; orrery token, and the groups of the token (deploy/README.md)"
_SANDBOXES = "archives are kept as long as tasks may need them, and nobody else keeps copies"
_CHECKPOINTS = "no checkpoints of steering containers are kept"
_CACHE = "file_server/upload_cache_file"

_EVENT_PICKING = "no event index is asked; input is a dataset: --inDS"

#: what is answered in the form that PanDA's client expects, and always with a refusal and its reason
ANSWERED: Mapping[str, str] = {
    f"{API}/workflow/submit_workflow_raw_request": _IDDS,
    f"{LEGACY}/put_workflow_request": _IDDS,
    f"{LEGACY}/relay_idds_command": _IDDS,
    f"{LEGACY}/execute_idds_workflow_command": _IDDS,
    f"{LEGACY}/putEventPickingRequest": _EVENT_PICKING,
}

#: why a path is not carried out, and what is there instead
REASONS: Mapping[str, str] = {
    f"{API}/async_process/submit_grep_request": _PROBES,
    f"{API}/async_process/submit_sleep_echo_request": _PROBES,
    f"{API}/async_process/get_result": _PROBES,
    f"{API}/creds/get_key_pair": f"pilots call {LEGACY}/getKeyPair",
    f"{API}/creds/get_proxy": f"pilots call {LEGACY}/getProxy",
    f"{API}/creds/get_token_key": "a token key is given by whoever runs the installation: orrery token --key",
    f"{API}/data_carousel/change_staging_destination": _CAROUSEL,
    f"{API}/data_carousel/change_staging_source": _CAROUSEL,
    f"{API}/data_carousel/force_to_staging": _CAROUSEL,
    f"{API}/data_carousel/retire_unused": _CAROUSEL,
    f"{API}/file_server/upload_jedi_log": _LOGS,
    f"{API}/file_server/update_jedi_log": _LOGS,
    f"{API}/file_server/download_jedi_log": _LOGS,
    f"{API}/file_server/touch_cache_file": _SANDBOXES,
    f"{API}/file_server/delete_cache_file": _SANDBOXES,
    f"{API}/file_server/register_cache_file": _SANDBOXES,
    f"{API}/file_server/upload_hpo_checkpoint": _CHECKPOINTS,
    f"{API}/file_server/delete_hpo_checkpoint": _CHECKPOINTS,
    f"{API}/file_server/upload_workflow_request": _IDDS,
    f"{API}/file_server/upload_event_picking_request": _EVENT_PICKING,
    f"{API}/harvester/update_service_metrics": _HARVESTER,
    f"{API}/harvester/add_dialogs": _HARVESTER,
    f"{API}/harvester/heartbeat": _HARVESTER,
    f"{API}/harvester/get_current_worker_id": _HARVESTER,
    f"{API}/harvester/get_worker_statistics": _HARVESTER,
    f"{API}/harvester/report_worker_statistics": _HARVESTER,
    f"{API}/harvester/acquire_commands": _HARVESTER,
    f"{API}/harvester/acknowledge_commands": _HARVESTER,
    f"{API}/harvester/add_sweep_command": _HARVESTER,
    f"{API}/idds/relay_idds_command": _IDDS,
    f"{API}/idds/execute_idds_workflow_command": _IDDS,
    f"{API}/job/generate_offline_execution_script": "job/get_description tells command line and input",
    f"{API}/job/reassign": "a job of a task is made anew by task/reassign, or after job/kill by its task",
    f"{API}/metaconfig/get_banned_users": "nobody is banned by name; orrery token revoke --subject NAME",
    f"{API}/metaconfig/get_site_specs": _GRID,
    f"{API}/metaconfig/get_resource_types": f"{LEGACY}/getResourceTypes",
    f"{API}/statistics/job_stats_by_cloud": f"queues belong to sites, not to clouds; {_STATISTICS}",
    f"{API}/statistics/production_job_stats_by_cloud_and_processing_type": _STATISTICS,
    f"{API}/statistics/active_job_detailed_stats_by_site": _STATISTICS,
    f"{API}/statistics/job_stats_by_site_and_resource_type": _STATISTICS,
    f"{API}/statistics/job_stats_by_site_share_and_resource_type": f"{_STATISTICS}; orrery shares",
    f"{API}/system/get_voms_attributes": _CERTIFICATES,
    f"{API}/system/get_user_attributes": _CERTIFICATES,
    f"{API}/task/kill_unfinished_jobs": "task/finish without soft ends what is not finished",
    f"{API}/task/reassign_global_share": "orrery shares, and gshare of a new task",
    f"{API}/task/get_jumbo_job_datasets": "task/get_details",
    f"{API}/task/change_modification_time": "a task is looked at when something changes; orrery release",
    f"{API}/workflow/submit_workflow": _IDDS,
}

#: methods of the interface before, and what took their place
REPLACED: Mapping[str, str] = {
    "isAlive": "system/is_alive", "putFile": _CACHE, "checkSandboxFile": "file_server/validate_cache_file",
    "insertSandboxFileInfo": _CACHE, "put_file_recovery_request": "file_server/upload_file_recovery_request",
    "getAttr": "system/get_attributes", "updateEventRange": "event/update_single_event_range",
    "checkEventsAvailability": "event/get_available_event_range_count",
    "get_events_status": "event/get_event_range_statuses", "checkJobStatus": "pilot/get_job_status",
    "updateJobsInBulk": "pilot/update_jobs_bulk", "submitJobs": "job/submit", "getJobStatus": "job/get_description",
    "getFullJobStatus": "job/get_description_incl_archive", "killJobs": "job/kill",
    "getJobStatisticsPerSite": "statistics/active_job_stats_by_site",
    "get_job_statistics_per_site_label_resource": "statistics/active_job_stats_by_site",
    "send_command_to_job": "job/set_command", "getUserJobMetadata": "job/get_metadata_for_analysis_jobs",
    "insertTaskParams": "task/submit", "killTask": "task/kill", "finishTask": "task/finish",
    "retryTask": "task/retry", "reassignTask": "task/reassign", "pauseTask": "task/pause",
    "resumeTask": "task/resume", "release_task": "task/release", "avalancheTask": "task/avalanche",
    "reactivateTask": "task/reactivate", "reloadInput": "task/reload_input",
    "increaseAttemptNrPanda": "task/increase_attempts", "changeTaskPriority": "task/change_priority",
    "changeTaskSplitRulePanda": "task/change_split_rule", "getTaskStatus": "task/get_status",
    "getJediTaskDetails": "task/get_details", "getJediTasksInTimeRange": "task/get_tasks_modified_since",
    "getPandaIDsWithTaskID": "task/get_job_ids", "getTaskParamsMap": "task/get_task_parameters",
    "get_files_in_datasets": "task/get_datasets_and_files", "set_user_secret": "creds/set_user_secrets",
    "enableJumboJobs": "task/enable_jumbo_jobs", "changeTaskAttributePanda": "task/change_attribute",
    "updateWorkers": "harvester/update_workers", "setNumSlotsForWP": "harvester/add_target_slots",
}  # fmt: skip
#: and those whose place was taken by what is not carried out
_ALIKE: Mapping[str, str] = {
    "deleteFile": "file_server/delete_cache_file", "touchFile": "file_server/touch_cache_file",
    "updateLog": "file_server/update_jedi_log", "fetchLog": "file_server/download_jedi_log",
    "uploadLog": "file_server/upload_jedi_log", "put_checkpoint": "file_server/upload_hpo_checkpoint",
    "delete_checkpoint": "file_server/delete_hpo_checkpoint", "getVomsAttr": "system/get_voms_attributes",
    "get_token_key": "creds/get_token_key", "getCommands": "harvester/acquire_commands",
    "ackCommands": "harvester/acknowledge_commands", "get_max_worker_id": "harvester/get_current_worker_id",
    "harvesterIsAlive": "harvester/heartbeat", "addHarvesterDialogs": "harvester/add_dialogs",
    "reportWorkerStats_jobtype": "harvester/report_worker_statistics",
    "getWorkerStats": "harvester/get_worker_statistics", "sweepPQ": "harvester/add_sweep_command",
    "updateServiceMetrics": "harvester/update_service_metrics", "reassignJobs": "job/reassign",
    "getScriptOfflineRunning": "job/generate_offline_execution_script",
    "killUnfinishedJobs": "task/kill_unfinished_jobs", "reassignShare": "task/reassign_global_share",
    "getJumboJobDatasets": "task/get_jumbo_job_datasets",
    "changeTaskModTimePanda": "task/change_modification_time",
    "get_ban_users": "metaconfig/get_banned_users", "getServer": "system/get_attributes",
}  # fmt: skip


def carried_out() -> Iterator[str]:
    """The paths that are."""
    for prefix, names in CARRIED_OUT.items():
        yield from (f"{prefix}/{name}" for name in names)


def refused_paths() -> Mapping[str, str]:
    """The paths that are not, each with its reason."""
    replaced = {f"{LEGACY}/{old}": f"the interface before; allowed: {API}/{new}" for old, new in REPLACED.items()}
    alike = {
        f"{LEGACY}/{old}": REASONS.get(f"{API}/{new}", "one address serves everything") for old, new in _ALIKE.items()
    }
    return {**REASONS, **replaced, **alike}


_REFUSED = refused_paths()


def why_not(path: str) -> str:
    """Why a path of PanDA's server is not carried out; "" for one that is, or that PanDA does not have."""
    reason = _REFUSED.get(path)
    return f"{path} is not carried out by this version: {reason}" if reason else ""


def path_table() -> str:
    """One line for each path: carried out, answered with a refusal, or why not."""
    told = dict.fromkeys(carried_out(), "carried out") | {path: f"refused: {why}" for path, why in _REFUSED.items()}
    told |= {path: f"answered with a refusal: {why}" for path, why in ANSWERED.items()}
    lines = [f"| `{path}` | {told[path]} |" for path in sorted(told)]
    return "\n".join(["| path | |", "|---|---|", *lines])
