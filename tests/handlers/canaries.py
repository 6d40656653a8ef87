"""A task, its jobs and all that is kept of them, with a word in every text that must not reach others."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import asyncpg

from shared.auth.state_view import JOB_COLUMNS, TASK_COLUMNS
from tests import rows

CANARY = "canary"
OWNER = f"{CANARY}-ada"
QUEUE = f"{CANARY}-queue"
TASK, JOB, CHUNK, DATASET, FILE = 701, 9001, 5001, 6001, 7001
#: what is told to anybody, and what links rows
_TOLD = (
    TASK_COLUMNS | JOB_COLUMNS | {"entity", "type", "kind", "role", "direction", "consumer", "app", "component", "key"}
)
_IDS = {
    "task_id": TASK, "job_id": JOB, "chunk_id": CHUNK, "dataset_id": DATASET, "file_id": FILE, "user_name": OWNER,
    "vo": "atlas", "gshare": "MC", "task_ids": [TASK], "entity_id": TASK,
}  # fmt: skip
_DECISION = {
    "kind": "job", "outcome": "chosen", "seed": 1, "world_version": 1, "chosen": [QUEUE],
    "names": [QUEUE], "codes": [0], "found": [1.0], "wanted": [2.0], "weights": [1.5], "checks": {}, "terms": {},
    "summary": {"considered": 1, "passed": 1, "notes": [f"{CANARY}-note"]},
}  # fmt: skip
_TABLES: dict[str, dict[str, Any]] = {
    "tasks": {"status": "running", "prod_source_label": "managed", "task_type": "prod", "current_priority": 500,
              "split_rule": {"nFilesPerJob": 1}, "parent_tid": None},
    "task_parameters": {"task_parameters": {"taskName": f"{CANARY}-parameters"}},
    "task_datasets": {"type": "input", "status": "ready", "n_files": 3},
    "task_files": {"type": "input", "status": "running", "max_attempt": 3},
    "chunks": {"kind": "normal", "status": "used", "n_files": 1, "inputs": None, "largest_boundary": None},
    "jobs": {"status": "running", "queue": QUEUE, "resource_type": "SCORE", "job_type": "normal", "shape_id": 1,
             "prod_source_label": "managed", "current_priority": 500, "core_count": 1, "attempt_number": 1},
    "job_files": {"type": "input"},
    "job_specs": {}, "job_reports": {"state": "running", "attempt_number": 1}, "job_progress": {}, "job_stdout": {},
    "job_claims": {},
    "brokerage_decisions": _DECISION,
    "generation_decisions": {"outcome": "throttled", "numbers": {}},
    "generation_history": {"outcome": "throttled", "numbers": {}},
    "retry_decisions": {"rule_id": 1, "action": "none", "is_active": True},
    "transfers": {"direction": "input", "status": "active", "n_files": 1, "n_bytes": 1,
                  "due_at": datetime(2030, 1, 1, tzinfo=UTC)},
    "transition_log": {"entity": "task", "to_status": "running", "at": datetime.now(UTC), "from_status": None},
    "refused_range_reports": {"n_reports": 1},
    "event_ranges": {"status": 1, "def_min_event_id": 0, "def_max_event_id": 9, "attempt_nr": 3},
    "users": {"data": {}, "grid_pref": ""}, "user_corrections": {"correction_factor": 0.5},
    "queue_statistics": {"queue": "Q1", "resource_type": "SCORE", "status": "running", "n_jobs": 1, "n_cores": 1},
    "group_corrections": {"correction_factor": 0.5},
}  # fmt: skip


async def plant(connection: asyncpg.Connection) -> None:
    """The task of OWNER in the VO atlas, with one running job."""
    await connection.execute(
        "INSERT INTO requirement_shapes (shape_id, prod_source_label, resource_type, core_count, ram_mb, disk_mb,"
        " walltime_s, vo) OVERRIDING SYSTEM VALUE VALUES (1, 'managed', 'SCORE', 1, 1, 1, 1, 'atlas')"
    )
    for table, given in _TABLES.items():
        await rows.insert(connection, table, {**await _words(connection, table), **given})
    secret = {"component": "job_dispatch", "key": "PILOT_SECRETS", "value": f'{{"*": "{OWNER}"}}', "type": "json"}
    await rows.insert(connection, "parameters", secret)


async def _words(connection: asyncpg.Connection, table: str) -> dict[str, Any]:
    """A word for each text of a table that anything may stand in, and the ids that link it."""
    columns = await connection.fetch(
        "SELECT column_name AS name, data_type AS kind, character_maximum_length AS longest,"
        "       column_default IS NOT NULL OR is_nullable = 'YES' AS may_lack, c.is_generated = 'ALWAYS' AS is_made,"
        "       EXISTS (SELECT FROM information_schema.constraint_column_usage u"
        "                 JOIN information_schema.check_constraints k USING (constraint_name)"
        "                WHERE u.table_name = c.table_name AND u.column_name = c.column_name) AS is_checked"
        "  FROM information_schema.columns c WHERE table_schema = 'public' AND table_name = $1",
        table,
    )
    found: dict[str, Any] = {}
    for one in columns:
        name, word = one["name"], f"{CANARY}-{table}-{one['name']}"
        if one["is_made"]:
            continue
        if name in _IDS:
            found[name] = _IDS[name]
        elif one["kind"] in ("text", "character varying") and not one["is_checked"] and name not in _TOLD:
            found[name] = word[: one["longest"] or len(word)]
        elif one["kind"] in ("json", "jsonb"):
            found[name] = {word: word}
    return found
