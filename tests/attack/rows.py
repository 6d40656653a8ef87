"""Looks at what is stored of a victim, to see whether an attack changed it. Looks only."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import asyncpg

from tests.attack.stage import Victim

_TASKS = "SELECT task_id FROM tasks WHERE vo = $vo$"
_JOBS = f"SELECT job_id FROM every_job WHERE task_id IN ({_TASKS})"
_DATASETS = "SELECT dataset_id FROM catalogue.datasets WHERE name = $dataset$"
#: which rows are the victim's; those without a condition are everybody's, whom operators alone may change
TABLES: Mapping[str, str] = {
    "tasks": "vo = $vo$",
    **dict.fromkeys(("task_parameters", "task_files", "task_datasets", "event_ranges"), f"task_id IN ({_TASKS})"),
    **dict.fromkeys(("every_job", "job_reports", "job_progress", "job_stdout", "job_claims"), f"job_id IN ({_JOBS})"),
    "jobs": f"job_id IN ({_JOBS})",
    "periodic_tasks": "vo = $vo$ AND user_name = $owner$",
    "user_secrets": "owner = $owner$",
    "sandboxes": "user_name = $owner$",
    **dict.fromkeys(
        ("catalogue.datasets", "catalogue.files", "catalogue.dataset_replicas"), f"dataset_id IN ({_DATASETS})"
    ),
    "workers": "subject = $pilot$",
    **dict.fromkeys(
        (
            "parameters", "revocations", "users", "user_groups", "work_queues", "retry_rules", "timeout_rules",
            "shares", "queue_slots", "queue_cordons", "site_adverts", "queues", "sites", "storages",
        ),
        "true",
    ),
}  # fmt: skip
#: what time, brokerage and looking at something change by themselves
_BY_ITSELF = (
    "modification_time", "locked_by", "locked_time", "used_at", "updated_at", "correction_factor", "changed_at",
    "state_change_time", "assessment_time", "throttled_time", "num_throttled", "retry_at", "state_check_time",
    "state_check_expiration", "attempts_version", "contents_version", "position", "archived_at", "expires_at",
    "disk_used_gb", "results_applied_at", "reported_at", "heartbeat_at", "seen", "seen_at",
)  # fmt: skip
_OF_VO = ("user_secrets", "sandboxes", "users")


class Rows:
    """One connection that reads."""

    def __init__(self, database_url: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._connection = self._loop.run_until_complete(asyncpg.connect(database_url))
        self._with_vo = {
            f"{row['table_name']}"
            for row in self.look("SELECT table_name FROM information_schema.columns WHERE column_name = 'vo'")
        }

    def close(self) -> None:
        self._loop.run_until_complete(self._connection.close())
        self._loop.close()

    def look(self, query: str, *values: Any) -> list[asyncpg.Record]:
        """The rows of a question."""
        return list(self._loop.run_until_complete(self._connection.fetch(query, *values)))

    def value(self, query: str, *values: Any) -> Any:
        return self._loop.run_until_complete(self._connection.fetchval(query, *values))

    def of(self, victim: Victim) -> dict[str, str]:
        """A checksum of the victim's rows in each table."""
        parts = [self._checksum(table, where, victim) for table, where in TABLES.items()]
        return {row["name"]: row["sum"] for row in self.look(" UNION ALL ".join(parts))}

    def _checksum(self, table: str, where: str, victim: Victim) -> str:
        if table in _OF_VO and table in self._with_vo and where != "true":
            where = f"{where} AND vo = $vo$"
        told = {"$vo$": victim.vo, "$owner$": victim.whose.owner, "$dataset$": victim.dataset}
        told["$pilot$"] = victim.pilot.name
        for name, value in told.items():
            where = where.replace(name, f"'{value}'")
        left_out = ", ".join(f"'{one}'" for one in _BY_ITSELF)
        row = f"(to_jsonb(r) - ARRAY[{left_out}])::text"
        return (
            f"SELECT '{table}' AS name, coalesce(md5(string_agg(h, ',' ORDER BY h)), '') AS sum "
            f"FROM (SELECT md5({row}) AS h FROM {table} r WHERE {where}) x"
        )


def changed(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """The tables whose rows are not what they were."""
    return [table for table in before if before[table] != after[table]]
