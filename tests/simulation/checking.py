"""The checks of the simulation: those of `orrery check`, on a connection of their own, as one statement per step.

Thirty queries planned anew would cost more than the step they check. The statement stays prepared, and it is given only
the tasks that the step touched.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

import asyncpg

from services.job_generation.kinds.build.policy import MOST_FAILURES
from services.watchdog.checking.invariants import CHECKS
from services.watchdog.checking.run import together
from shared.states import TASK
from shared.states.job import LIVE
from tests.simulation.results import MERGED, RESULTS, RESULTS_OF_COPIES, RESULTS_OF_OTHER_KINDS
from tests.simulation.workload import RETURNED_EVENTS

#: about time on a real clock: before the end the bus may be as slow as the seed says
ABOUT_LATENCY = {"i10_event_not_published", "i10_deferred_event_overdue", "i13_statistics_differ_at_rest",
                 "i12_usage_differs_at_rest", "i10_end_never_counted", "i10_end_never_settled"}  # fmt: skip
#: about rows of job sets and of their ranges: nothing can break them before the first job set is there
ABOUT_JOB_SETS = {"i1_event_range_twice", "i1_range_of_no_live_row", "i2_job_set_without_job", "i2_range_of_no_job",
                  "i7_counters_of_job_set", "i7_file_of_waiting_set", "i8_events_merged_twice",
                  "i8_events_not_merged", "i8_processed_events_not_merged"}  # fmt: skip
#: a task in one of these ended, or waits for its owner and says so
ENDED = sorted({*TASK.final, "exhausted"})
PLANS = {"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "jit": "off", "timezone": "UTC"}

_ROWS_PER_CHECK = 20
#: of every check, of those that hold before the bus is at rest, and of those that hold after each step
_ALL = together(CHECKS, _ROWS_PER_CHECK)
_WITHOUT_REST = together(tuple(check for check in CHECKS if check.name not in ABOUT_LATENCY), _ROWS_PER_CHECK)
_AT_EVERY_COMMIT = together(tuple(check for check in CHECKS if check.at_every_commit), _ROWS_PER_CHECK)
_WITHOUT_JOB_SETS = together(
    tuple(check for check in CHECKS if check.at_every_commit and check.name not in ABOUT_JOB_SETS), _ROWS_PER_CHECK
)
_INVARIANTS = {check.name: check.invariant for check in CHECKS}
_AFTER_STEP = """
SELECT touched.ids,
       ARRAY(SELECT DISTINCT queue FROM jobs WHERE status = 'activated' ORDER BY queue) AS wanted,
       NOT EXISTS (SELECT FROM tasks WHERE status <> ALL($2)) AS ended,
       EXISTS (SELECT FROM deferred_messages) AS has_deferred, EXISTS (SELECT FROM job_sets) AS has_job_sets,
       ARRAY(SELECT consumer || ': ' || reason FROM parked_messages ORDER BY parked_id) AS parked
  FROM (SELECT coalesce(array_agg(DISTINCT task_id), '{}') AS ids
          FROM (SELECT task_id FROM transition_log WHERE at >= $1
                UNION ALL
                SELECT j.task_id FROM transition_log l JOIN jobs j ON j.job_id = ANY(l.entity_ids)
                 WHERE l.at >= $1 AND l.entity = 'job' AND l.task_id IS NULL) changed
         WHERE task_id IS NOT NULL) AS touched
"""
_EVERY_TASK = "SELECT coalesce(array_agg(task_id), '{}') FROM tasks"
_FINGERPRINT = """
SELECT md5(string_agg(concat_ws(',', at, entity, entity_id, entity_ids, from_status, to_status, actor, reason), ';'
                      ORDER BY at, entity, entity_id, entity_ids, from_status, to_status, actor, reason))
  FROM transition_log
"""
_CHANGED = """
SELECT to_status FROM transition_log
 WHERE at >= $1 AND entity = 'job' AND (entity_id = $2 OR entity_ids @> ARRAY[$2::bigint])
"""
_TASKS = "SELECT task_id, status, retry_at, error_dialog FROM tasks ORDER BY task_id"


@dataclass(frozen=True)
class Observed:
    """After a step: what is broken, what was parked, which queues have work for pilots, whether every task ended."""

    violations: Sequence[str] = ()
    parked: Sequence[str] = ()
    wanted_queues: frozenset[str] = frozenset()
    ended: bool = False
    has_deferred: bool = False


class Checker:
    """Reads only; its connection has the simulated time of the last check."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection

    @classmethod
    async def connect(cls, url: str, *, name: str) -> Checker:
        connection = await asyncpg.connect(
            url, server_settings={**PLANS, "application_name": name}, max_cached_statement_lifetime=0,
            max_cacheable_statement_size=0,
        )  # fmt: skip
        return cls(connection)

    async def after_step(self, moment: datetime) -> Observed:
        """What holds after every commit, for the tasks that changed since `moment`."""
        row = await self._connection.fetchrow(_AFTER_STEP, moment, ENDED)
        assert row is not None
        checks = _AT_EVERY_COMMIT if row["has_job_sets"] else _WITHOUT_JOB_SETS
        violations = await self._violations(checks, row["ids"]) if row["ids"] else ()
        return Observed(violations, row["parked"], frozenset(row["wanted"]), row["ended"], row["has_deferred"])

    async def everything(self, now: datetime, *, at_rest: bool) -> Sequence[str]:
        """Every check on every task; what is about latency only when everything is said to be at rest."""
        await self._connection.execute("SELECT set_config('orrery.now', $1, false)", now.isoformat())
        every_task = await self._connection.fetchval(_EVERY_TASK)
        return await self._violations(_ALL if at_rest else _WITHOUT_REST, every_task)

    async def results(self, ended: Sequence[int]) -> list[str]:
        """What users would complain about at the end; `ended`: the tasks that they ended early."""
        rows = [
            *await self._connection.fetch(RESULTS, ended, MOST_FAILURES),
            *await self._connection.fetch(RESULTS_OF_OTHER_KINDS, sorted(LIVE), RETURNED_EVENTS),
            *await self._connection.fetch(RESULTS_OF_COPIES),
        ]
        return [row["sentence"] for row in rows]

    async def merged_without_report(self, finished: Collection[str]) -> list[str]:
        """Ranges that are merged and that no pilot said to have processed."""
        rows = await self._connection.fetch(MERGED)
        return [f"range {row['name']} is merged; no pilot processed it" for row in rows if row["name"] not in finished]

    async def changes_of_job(self, job_id: int, moment: datetime) -> list[str]:
        """The states that a job took since `moment`."""
        return [row["to_status"] for row in await self._connection.fetch(_CHANGED, moment, job_id)]

    async def fingerprint(self) -> str:
        return str(await self._connection.fetchval(_FINGERPRINT))

    async def tasks(self) -> list[asyncpg.Record]:
        rows: list[asyncpg.Record] = await self._connection.fetch(_TASKS)
        return rows

    async def forget_time(self) -> None:
        """As if nothing had been checked yet."""
        await self._connection.execute("SELECT set_config('orrery.now', '', false)")

    async def close(self) -> None:
        await self._connection.close()

    async def _violations(self, checks: str, task_ids: Sequence[int]) -> list[str]:
        rows = await self._connection.fetch(checks, task_ids)
        return [f"{_INVARIANTS[row['check_name']]} {row['check_name']}: {row['sentence']}" for row in rows]
