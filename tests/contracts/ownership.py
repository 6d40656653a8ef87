"""Who may write what: for each table the services that insert and delete rows, and the owner of each column.

A column has one owner. A few belong to whoever makes a transition (`status`, its time and its reason); there the graphs
name one owner per transition. A test parses the SQL of every service against this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from shared.states.graph import Owner

Owners = frozenset[Owner]

TD, TB, JG, JB = Owner.TASK_DEFINITION, Owner.TASK_BROKERAGE, Owner.JOB_GENERATION, Owner.JOB_BROKERAGE
JD, WD, JW, SC = Owner.JOB_DISPATCH, Owner.WATCHDOG, Owner.JUMBO_WATCHDOG, Owner.SHARE_CORRECTION
EVERYONE: Owners = frozenset(Owner)


def _only(*owners: Owner) -> Owners:
    return frozenset(owners)


@dataclass(frozen=True)
class Table:
    """`others` owns every column that `columns` does not name; `inserts` and `deletes` are about rows."""

    inserts: Owners
    others: Owners = frozenset()
    columns: Mapping[str, Owners] = field(default_factory=dict)
    deletes: Owners = frozenset()

    def owners(self, column: str) -> Owners:
        return self.columns.get(column, self.others)


def _columns(owners: Owners, names: str) -> dict[str, Owners]:
    return dict.fromkeys(names.split(), owners)


#: whoever changes a status writes these with it
_TASK_MOVERS = _only(TD, TB, JG, WD)
_JOB_MOVERS = _only(JD, JG, WD)

TASKS = Table(
    inserts=_only(TD),
    others=_only(TD),
    deletes=_only(WD),  # what ended long ago is archived, with all that is its own
    columns={
        # as submitted; generation makes jobs smaller after failures, and by what scouts measured
        **_columns(_only(TD, JG), "split_rule measured_rules"),
        **_columns(_TASK_MOVERS, "status old_status error_dialog retry_at state_change_time"),
        # touched with every change of the row
        **_columns(_only(TD, TB, JG, WD, JW), "modification_time"),
        # since when a task waits: set by who sets it pending, forgotten by who sees it succeed
        **_columns(_only(TD, JG, WD), "frozen_time"),
        # the time of the first jobs; forgotten by a retry
        **_columns(_only(JG, TD), "start_time"),
        # by the task brokerage, or given with the task and by reassignment
        **_columns(_only(TB, TD), "nucleus"),
        # as submitted, then boosted near the end
        **_columns(_only(TD, JG), "current_priority gshare resource_type"),
        # as submitted, or as a pre-processing job returned it; then measured
        **_columns(_only(JG, TD), "cpu_time cpu_time_unit cpu_efficiency walltime walltime_unit"),
        # measured, and taken back by an incremental execution
        **_columns(_only(JG, TD), "ram_count ram_unit measured_units"),
        **_columns(_only(JG, TD), "base_walltime io_intensity io_intensity_unit disk_io disk_io_unit out_disk_count"),
        **_columns(_only(JG, TD), "out_disk_unit work_disk_count work_disk_unit merge_ram_count merge_ram_unit"),
        **_columns(_only(JG), "merge_walltime merge_walltime_unit"),
        **_columns(_only(WD), "throttled_time rescue_time"),
        **_columns(_only(WD, TD), "num_throttled"),
        # W with the task, or on and off by the switcher; generation says what became of it
        **_columns(_only(TD, JW, JG), "use_jumbo"),
        **_columns(_only(JG), "co_jumbo_retry_at co_jumbo_after jumbo_queues"),
    },
)

TASK_DATASETS = Table(
    # generation inserts what a chosen site needs, from the templates of the task
    inserts=_only(TD, JG),
    others=_only(TD),
    deletes=_only(WD),
    columns={
        **_columns(_only(TD, JG), "status modification_time"),
        # counted by generation; task_definition adds contents that appear, and re-opens files by command
        **_columns(_only(JG, TD), "n_files n_files_to_be_used n_files_used n_files_failed n_events_used"),
        # what was finished is not any more where its outputs are lost
        **_columns(_only(JG, TD), "n_files_finished"),
        **_columns(_only(JG), "n_files_on_hold n_files_waiting"),
    },
)

TASK_FILES = Table(
    inserts=_only(TD, JG),
    others=_only(TD),
    # a unit without events, which no job had, is read anew when they are known; that of a pre-processing job leaves
    deletes=_only(TD, WD),
    columns={
        **_columns(_only(TD, JG), "status"),
        **_columns(_only(JG), "attempt_nr failed_attempt last_attempt_time job_id out_job_id chunk_id jobset_id"),
        **_columns(_only(JG), "boundary_id ram_count is_waiting proc_status first_event avoided_site"),
        # raised by a retry command, and by generation for attempts that ended through our own fault
        **_columns(_only(TD, JG), "max_attempt max_failure"),
        # inputs as the catalogue has them; outputs as the pilot reported them
        **_columns(_only(TD, JG), "fsize guid checksum n_events"),
    },
)

JOBS = Table(
    inserts=_only(JG),
    others=_only(JD),
    deletes=_only(JG),
    columns={
        **_columns(_JOB_MOVERS, "status state_change_time end_time error_source error_code error_dialog deadline_at"),
        **_columns(_only(JG), "results_applied_at order_key_id"),
    },
)

#: rows that every service writes through shared code, or about itself
_SHARED = {
    name: Table(inserts=EVERYONE, others=EVERYONE, deletes=EVERYONE)
    for name in ("outbox", "inbox", "deferred_messages", "parked_messages", "bus_queues", "leases", "watch_runs",
                 "transition_log", "audit_log", "versions")
}  # fmt: skip


def _whole(*owners: Owner) -> Table:
    """A table that belongs to these services altogether."""
    return Table(inserts=_only(*owners), others=_only(*owners), deletes=_only(*owners))


def _dropped(*owners: Owner) -> Table:
    """A table that belongs to these services, of which the watchdog drops what is old."""
    return Table(inserts=_only(*owners), others=_only(*owners), deletes=_only(*owners, WD))


TABLES: Mapping[str, Table] = {
    "tasks": TASKS,
    "task_datasets": TASK_DATASETS,
    "task_files": TASK_FILES,
    "jobs": JOBS,
    "task_parameters": _dropped(TD),
    "notices": _whole(TD),
    "jumbo_reasons": _whole(JW),
    "empty_queues": _whole(WD),
    "preassigned_tasks": _whole(WD),
    "passed_over": _whole(WD),
    "task_deadlines": Table(inserts=_only(TD), others=_only(TD, WD), deletes=_only(WD)),
    "input_readings": _dropped(TD),
    "dataset_readings": _dropped(TD),
    "reopenings": _whole(TD),
    "stage_ins": _whole(TD),
    "job_parameters_templates": _dropped(TD),
    "output_templates": Table(
        inserts=_only(TD), others=_only(TD), columns=_columns(_only(JG), "serial_nr"), deletes=_only(WD)
    ),
    "parameters": _whole(TD),
    "periodic_tasks": _whole(TD),
    "revocations": _whole(TD),
    "sandboxes": _whole(TD),
    "sandbox_parts": _whole(TD),
    "catalogue_requests": _whole(TD),
    "task_job_counts": _dropped(JG),
    "task_usage": _dropped(JG),
    "builds": _dropped(JG),
    # kept by generation, and forgotten by the definition that takes it
    "preprocessing_results": Table(inserts=_only(JG), others=_only(JG), deletes=_only(TD, WD)),
    "work_queues": _whole(TD),
    "users": _whole(TD),
    "user_groups": _whole(TD),
    # interned with the jobs that they are made for; deleted by the dispatcher when they are empty
    "task_queues": Table(
        inserts=_only(JG), others=_only(JG), deletes=_only(JD), columns=_columns(_only(JD), "empty_since")
    ),
    "order_key_sweeps": _whole(JG),
    "counter_audits": _whole(JG),
    "counter_audit_parts": _whole(JG),
    "order_key_changes": _whole(JG),
    "order_keys": Table(inserts=_only(JG), others=_only(JG), deletes=_only(JD)),
    "job_sets": _dropped(JG),
    "job_set_jobs": _dropped(JG),
    "stored_copies": _dropped(TD),
    "jumbo_jobs": _dropped(JG),
    "event_ranges_past": _dropped(JG),
    "hpo_searches": Table(
        inserts=_only(JG),
        others=_only(JG),
        deletes=_only(WD),
        columns=_columns(_only(JG, JD), "n_points next_point"),  # the next generation follows when a pilot asks
    ),
    "hpo_points": _dropped(JG),
    "event_ranges": Table(
        inserts=_only(JG, JD),  # the next attempt of a failed range is inserted with the report that it failed
        deletes=_only(JG, WD),  # those of earlier job sets of a file go to event_ranges_past
        others=_only(JG),
        columns={
            **_columns(_only(JG, JD), "status job_id processed_up_to_event_id obj_store_id zip_row_id error_code"),
            **_columns(_only(JD), "error_diag is_jumbo"),
        },
    ),
    "event_range_files": _dropped(JD),
    "refused_range_reports": _dropped(JD),
    "chunks": _dropped(JG),
    "jobs_archive": _whole(JG),
    "task_names": _whole(),  # kept by the database, like the next two
    "archive_days": _dropped(),
    "archive_days_of_tasks": _dropped(),
    "tasks_archive": _whole(WD),
    "task_files_archive": _whole(WD),
    "job_specs": _dropped(JG),
    "job_files": _dropped(JG),
    "job_retry_history": _dropped(JG),
    "requirement_shapes": _whole(JG),
    "generation_decisions": _dropped(JG),
    "generation_history": _dropped(JG),
    "generation_gates": _whole(JG),
    "dirty_tasks": _whole(JG),
    "retry_rules": _whole(JG),
    "retry_decisions": _whole(JG),
    "raised_memory": _dropped(JG),
    "job_reports": _dropped(JD),
    "job_claims": _whole(JD),
    "job_progress": _whole(JD),
    "user_secrets": _whole(JD),
    "worker_nodes": _whole(JD),
    "pilots_without_a_job": _whole(JD),
    "job_stdout": _whole(JD),
    "command_progress": _whole(JD),
    "job_order_changes": _whole(JD),
    "site_limit_permits": _whole(JD),
    "site_delays": _whole(JD),
    "dispatch_replicas": _whole(JD),
    "heard_minutes": _whole(JD),
    "workers": _whole(JD),
    "site_adverts": Table(inserts=_only(JD), others=_only(JD), columns=_columns(_only(JD, JG), "current_matches")),
    "transfers": Table(inserts=_only(JD), others=_only(TD), deletes=_only(TD, WD)),
    "brokerage_decisions": Table(inserts=_only(TB, JB), deletes=_only(JB)),
    # written by who told the task to wait
    "waits": _whole(JB, TB, JG),
    "task_remaining_work": _whole(TB),
    "nucleus_remaining_work": _whole(TB),
    "sites": _whole(JB),
    "queues": _whole(JB),
    "storages": _whole(JB),
    "network_metrics": _whole(JB),
    "software_map": _whole(JB),
    "resource_types": _whole(JB),
    "queue_statistics": _dropped(JB),
    "counted_chunks": _whole(JB),
    "queue_outcomes": _whole(JB),
    "queue_waits": _whole(JB),
    # the last pilot's request is seen by the dispatcher, the rest is folded from events
    "queue_activity": Table(
        inserts=_only(JB, JD), others=_only(JB), columns=_columns(_only(JB, JD), "last_pilot_at")
    ),
    "queue_slots": _whole(JB),
    "queue_cordons": _whole(JB),
    "absent_queues": _whole(JB),
    # a tree comes with the grid or by itself; factors are corrected
    "shares": Table(
        inserts=_only(JB, SC), others=_only(JB, SC), deletes=_only(JB, SC),
        columns=_columns(_only(SC), "correction_factor"),
    ),
    # written by the version before this one
    "usage_buckets": _whole(SC),
    "usage_levels": _whole(SC),
    "correction_terms": _whole(SC),
    "user_corrections": _whole(SC),
    "group_corrections": _whole(SC),
    "sweep_marks": _whole(WD),
    "retention_positions": _whole(WD),
    "retention_put_off": _whole(WD),
    "retention_sizes": _whole(WD),
    "timeout_rules": _whole(WD),
    "job_deadlines": _whole(WD),
    "deadline_basis": _whole(WD),
    "overloads": _whole(WD),
    "process_locks": Table(inserts=frozenset()),
    **_SHARED,
}  # fmt: skip

#: tables whose status follows a graph
GRAPH_OF_TABLE: Mapping[str, str] = {
    "tasks": "task",
    "task_datasets": "dataset",
    "task_files": "file",
    "event_ranges": "event_range",
    "jobs": "job",
}
