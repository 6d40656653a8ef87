"""The checks of the simulation: those of `orrery check`, on a connection of their own, as one statement per step.

Thirty queries planned anew would cost more than the step they check. The statement stays prepared, and it is given only
the tasks that the step touched.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

import asyncpg

from services.job_generation.policy.build_jobs import MOST_FAILURES
from services.watchdog.checking.invariants import CHECKS
from services.watchdog.checking.run import together
from shared.states import TASK
from shared.states.job import LIVE
from tests.simulation.workload import RETURNED_EVENTS

#: about time on a real clock: before the end the bus may be as slow as the seed says
ABOUT_LATENCY = {"i10_event_not_published", "i10_deferred_event_overdue", "i13_statistics_differ_at_rest",
                 "i12_usage_differs_at_rest", "i10_end_never_counted"}  # fmt: skip
#: a task in one of these ended, or waits for its owner and says so
ENDED = sorted({*TASK.final, "exhausted"})
PLANS = {"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "jit": "off", "timezone": "UTC"}

_ROWS_PER_CHECK = 20
#: of every check, of those that hold before the bus is at rest, and of those that hold after each step
_ALL = together(CHECKS, _ROWS_PER_CHECK)
_WITHOUT_REST = together(tuple(check for check in CHECKS if check.name not in ABOUT_LATENCY), _ROWS_PER_CHECK)
_AT_EVERY_COMMIT = together(tuple(check for check in CHECKS if check.at_every_commit), _ROWS_PER_CHECK)
_INVARIANTS = {check.name: check.invariant for check in CHECKS}
_AFTER_STEP = """
SELECT touched.ids,
       ARRAY(SELECT DISTINCT queue FROM jobs WHERE status = 'activated' ORDER BY queue) AS wanted,
       NOT EXISTS (SELECT FROM tasks WHERE status <> ALL($2)) AS ended,
       EXISTS (SELECT FROM deferred_messages) AS has_deferred,
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
# What users get: whatever failed, a task that nobody ended early is done; the catalogue has the outputs of jobs that
# succeeded, each with its size, and no others.
_RESULTS = """
SELECT format('task %s is %s although nobody ended it: %s', task_id, status, error_dialog) AS sentence
  FROM tasks t WHERE status <> 'done' AND NOT task_id = ANY($1)
   AND NOT (status = 'broken'
            AND $2 <= (SELECT coalesce(sum(b.n_failures), 0) FROM builds b WHERE b.task_id = t.task_id))
   AND NOT (status = 'failed' AND EXISTS (SELECT FROM task_files f WHERE f.task_id = t.task_id
                                             AND f.type = 'pp_input' AND f.attempt_nr >= f.max_attempt))
UNION ALL
SELECT format('output %s of task %s is finished and not in the catalogue', f.lfn, f.task_id)
  FROM task_files f JOIN task_datasets d USING (dataset_id)
 WHERE f.type IN ('output', 'log') AND f.status = 'finished'
   AND NOT EXISTS (SELECT FROM catalogue.files c JOIN catalogue.datasets k USING (dataset_id)
                    WHERE k.name = d.dataset_name AND c.lfn = f.lfn AND c.size_bytes = f.fsize)
UNION ALL
SELECT format('output %s is in the catalogue, but its job did not succeed: it is %s', c.lfn, f.status)
  FROM task_datasets d JOIN catalogue.datasets k ON k.name = d.dataset_name JOIN catalogue.files c
    ON c.dataset_id = k.dataset_id LEFT JOIN task_files f ON f.dataset_id = d.dataset_id AND f.lfn = c.lfn
 WHERE d.type IN ('output', 'log') AND f.status IS DISTINCT FROM 'finished'
"""
# Of tasks with event service, builds and pre-processing: a finished file has each of its events merged once, but for
# those that its owner did without; no range is open, no library made twice, no returned parameter lost, no job live.
_RESULTS_OF_OTHER_KINDS = """
SELECT format('file %s of task %s is finished: of its %s events %s are merged and %s given up', f.file_id, f.task_id,
              f.n_events, c.merged, c.given_up) AS sentence
  FROM tasks t JOIN task_files f USING (task_id) JOIN task_datasets d USING (dataset_id) CROSS JOIN LATERAL (
       SELECT coalesce(sum(r.def_max_event_id - r.def_min_event_id + 1) FILTER (WHERE r.status = 9), 0) AS merged,
              coalesce(sum(r.def_max_event_id - r.def_min_event_id + 1) FILTER (WHERE r.status = 8), 0) AS given_up
         FROM event_ranges r WHERE r.task_id = f.task_id AND r.file_id = f.file_id) c
 WHERE t.event_service = 1 AND f.type = 'input' AND d.master_id IS NULL AND f.status = 'finished'
   AND (c.merged + c.given_up <> f.n_events OR c.given_up > 0 AND NOT EXISTS (
        SELECT FROM transition_log l WHERE l.task_id = t.task_id AND l.to_status = 'finishing'))
UNION ALL
SELECT format('range %s of task %s is in state %s, and its job set is %s', r.event_range_id, r.task_id, r.status,
              s.status)
  FROM event_ranges r JOIN job_sets s USING (job_set_id)
 WHERE r.status IN (0, 1, 2, 3) AND s.status NOT IN ('open', 'merging')
UNION ALL
SELECT format('task %s has %s libraries of %s finished build jobs', b.task_id, b.n_libraries, j.n_jobs)
  FROM (SELECT task_id, count(file_id) AS n_libraries FROM builds GROUP BY task_id) b JOIN (
        SELECT task_id, count(*) AS n_jobs FROM every_job WHERE job_type = 'build' AND status = 'finished'
         GROUP BY task_id) j USING (task_id)
 WHERE b.n_libraries <> j.n_jobs
UNION ALL
SELECT format('task %s is done, and %s events per job are not the %s that its pre-processing returned', task_id,
              split_rule -> 'nEventsPerJob', $2::int)
  FROM tasks WHERE status = 'done' AND split_rule ? 'usePrePro' AND (split_rule -> 'nEventsPerJob')::int <> $2
UNION ALL
SELECT format('job %s of task %s is %s, and its task is %s', j.job_id, j.task_id, j.status, t.status)
  FROM jobs j JOIN tasks t USING (task_id) WHERE j.status = ANY($1)
"""
_MERGED = """
SELECT concat_ws('-', task_id, job_id, file_id, job_process_id, attempt_nr) AS name FROM event_ranges WHERE status = 9
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
        violations = await self._violations(_AT_EVERY_COMMIT, row["ids"]) if row["ids"] else ()
        return Observed(violations, row["parked"], frozenset(row["wanted"]), row["ended"], row["has_deferred"])

    async def everything(self, now: datetime, *, at_rest: bool) -> Sequence[str]:
        """Every check on every task; what is about latency only when everything is said to be at rest."""
        await self._connection.execute("SELECT set_config('orrery.now', $1, false)", now.isoformat())
        every_task = await self._connection.fetchval(_EVERY_TASK)
        return await self._violations(_ALL if at_rest else _WITHOUT_REST, every_task)

    async def results(self, ended: Sequence[int]) -> list[str]:
        """What users would complain about at the end; `ended`: the tasks that they ended early."""
        rows = [
            *await self._connection.fetch(_RESULTS, ended, MOST_FAILURES),
            *await self._connection.fetch(_RESULTS_OF_OTHER_KINDS, sorted(LIVE), RETURNED_EVENTS),
        ]
        return [row["sentence"] for row in rows]

    async def merged_without_report(self, finished: Collection[str]) -> list[str]:
        """Ranges that are merged and that no pilot said to have processed."""
        rows = await self._connection.fetch(_MERGED)
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
