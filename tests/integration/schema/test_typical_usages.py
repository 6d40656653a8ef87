"""The specification's "typical usages", and what the hot paths ask, are answered by an index on tables of some size."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest
import pytest_asyncio

from tests import servers
from tests.rows_read import rows_read

pytestmark = pytest.mark.asyncio(loop_scope="module")

# (name, statement, arguments, an index that must be used: one of these)
TASKS = [
    ("production tasks of a queue by priority",
     "SELECT * FROM tasks WHERE status = $1 AND working_group = ANY($2) AND processing_type = ANY($3) AND vo = $4"
     " AND task_type = $5 ORDER BY current_priority DESC, task_id LIMIT 50",
     ("ready", ["wg1"], ["simul"], "demo", "prod"), "tasks_by_status"),
    ("tasks to be amended", "SELECT task_id FROM tasks WHERE command IS NOT NULL", (), "tasks_command"),
    ("users with tasks to be processed",
     "SELECT user_name, vo FROM tasks WHERE status = $1 AND task_type = $2", ("ready", "anal"), "tasks_by_status"),
    ("analysis tasks of a user",
     "SELECT * FROM tasks WHERE status = $1 AND user_name = $2 AND vo = $3 AND task_type = $4"
     " ORDER BY current_priority DESC, task_id LIMIT 50", ("ready", "user7", "demo", "anal"), "tasks_user"),
    ("slow or delayed tasks",
     "SELECT task_id FROM tasks WHERE status = $1 AND task_type = $2"
     " AND creation_date < orrery_now() - interval '1 day'",
     ("ready", "prod"), "tasks_by_status|tasks_created|tasks_live"),
    ("hung-up processes of tasks",
     "SELECT task_id FROM tasks WHERE locked_by IS NOT NULL AND locked_time < orrery_now()", (), "tasks_locked"),
    ("live tasks by priority",
     "SELECT task_id FROM tasks WHERE status = 'ready' ORDER BY current_priority DESC, task_id LIMIT 50", (),
     "tasks_live|tasks_by_status"),
    ("tasks whose time has come",
     "SELECT task_id FROM tasks WHERE retry_at <= orrery_now() AND status = ANY($1)", (["pending"],), "tasks_retry"),
    ("children of a task", "SELECT task_id FROM tasks WHERE parent_tid = $1", (5,), "tasks_parent"),
    ("a task by name", "SELECT task_id FROM tasks WHERE task_name = $1", ("task.77",), "tasks_name"),
    ("tasks by a part of their name, the newest first",
     "SELECT task_id FROM tasks LEFT JOIN task_names n USING (task_id) WHERE $1::text IS NULL OR n.name LIKE $1"
     " ORDER BY task_id DESC LIMIT 51", ("%sk.4321%",), "task_names_parts"),
    ("remaining work of a nucleus",
     "SELECT task_id FROM tasks WHERE nucleus = $1"
     " AND status NOT IN ('done', 'finished', 'failed', 'broken', 'aborted')",
     ("N3",), "tasks_nucleus"),
]  # fmt: skip
DATASETS = [
    ("datasets of a task", "SELECT dataset_name, type FROM task_datasets WHERE task_id = $1", (77,),
     "task_datasets_task"),
    ("datasets of the catalogue by a part of their name",
     "SELECT name FROM catalogue.datasets WHERE name LIKE $1 ORDER BY name LIMIT 10", ("%set.4321%",),
     "datasets_name_parts"),
    ("datasets to be processed in a task",
     "SELECT dataset_name FROM task_datasets WHERE task_id = $1 AND status = $2 AND n_files_to_be_used > n_files_used"
     " AND type = $3", (77, "ready", "input"), "task_datasets_task"),
    ("the task that uses a dataset", "SELECT task_id FROM task_datasets WHERE dataset_name = $1 AND type = $2",
     ("dataset.77", "input"), "task_datasets_name"),
    ("tasks that contribute to a container",
     "SELECT task_id FROM task_datasets WHERE container_name = $1 AND type = $2", ("container.7", "input"),
     "task_datasets_container"),
    ("datasets whose state must be checked",
     "SELECT dataset_name FROM task_datasets WHERE state_check_time < orrery_now() - interval '1 day'"
     " AND state_check_expiration IS NOT NULL", (), "task_datasets_check"),
    ("update of a dataset", "UPDATE task_datasets SET n_files_used = 1 WHERE dataset_id = $1", (77,),
     "task_datasets_pkey"),
    ("update of the datasets of a task", "UPDATE task_datasets SET site = 'S' WHERE task_id = $1", (77,),
     "task_datasets_task"),
    ("hung-up processes of datasets",
     "SELECT dataset_id FROM task_datasets WHERE locked_by IS NOT NULL AND locked_time < orrery_now()", (),
     "task_datasets_locked"),
]  # fmt: skip
FILES = [
    ("the most tried file of a dataset",
     "SELECT max(attempt_nr) FROM task_files WHERE dataset_id = $1 AND status IN ('ready', 'picked', 'running')"
     " AND attempt_nr > 0", (77,), "task_files_tried"),
    ("what produced a file", "SELECT task_id, dataset_id FROM task_files"
     " WHERE lfn = $1 AND scope = $2 AND type = $3 AND type IN ('input', 'output') AND status = 'finished'",
     ("file.777", "s", "input"), "task_files_finished"),
    ("files of a task", "SELECT file_id FROM task_datasets d JOIN task_files f USING (dataset_id)"
     " WHERE d.task_id = $1 AND d.type = $2", (77, "input"), "task_files_state|task_files_unit"),
    ("files in a state",
     "SELECT file_id FROM task_files WHERE task_id = $1 AND dataset_id = $2 AND type = $3 AND status = $4",
     (77, 77, "input", "ready"), "task_files_state|task_files_unit"),
    ("files to be processed",
     "SELECT file_id FROM task_files WHERE task_id = $1 AND dataset_id = $2 AND type = $3 AND status = $4"
     " AND attempt_nr < max_attempt", (77, 77, "input", "ready"), "task_files_state|task_files_unit"),
    ("the next ready files of a dataset",
     "SELECT file_id FROM task_files WHERE dataset_id = $1 AND status = 'ready' ORDER BY file_id LIMIT 100", (1,),
     "task_files_state"),
    ("update of a file", "UPDATE task_files SET ram_count = 1 WHERE file_id = $1", (777,), "task_files_pkey"),
    ("update of the files of a dataset", "UPDATE task_files SET ram_count = 1 WHERE dataset_id = $1", (77,),
     "task_files_state|task_files_unit"),
    ("files of a chunk", "SELECT file_id FROM task_files WHERE chunk_id = $1 AND status = 'picked'", (5,),
     "task_files_chunk"),
    ("files that a job runs on", "SELECT file_id FROM task_files WHERE job_id = $1 AND status = 'running'", (5,),
     "task_files_job"),
    ("files that a job produced", "SELECT file_id FROM task_files WHERE out_job_id = $1", (5,),
     "task_files_producer"),
]  # fmt: skip
JOBS = [
    ("a lane of the dispatcher",
     "SELECT job_id FROM jobs WHERE queue = $1 AND gshare = $2 AND order_key_id = 0 AND shape_id = $3"
     " AND status = 'activated' ORDER BY -current_priority, job_id LIMIT 256", ("Q3", "MC", 1), "jobs_lane"),
    ("live jobs of a task", "SELECT count(*) FROM jobs WHERE task_id = $1 AND status = 'running'", (77,), "jobs_task"),
    ("ends that were not counted",
     "SELECT job_id FROM jobs WHERE results_applied_at IS NULL AND status IN ('finished', 'failed', 'closed',"
     " 'cancelled')", (), "jobs_unapplied"),
    ("jobs that may be archived",
     "SELECT job_id FROM jobs WHERE results_applied_at < orrery_now() ORDER BY results_applied_at LIMIT 100",
     (), "jobs_applied"),
    ("jobs whose deadline has come",
     "SELECT job_id FROM jobs WHERE deadline_at < orrery_now() ORDER BY deadline_at LIMIT 500", (), "jobs_deadline"),
    ("offered chunks", "SELECT chunk_id FROM chunks WHERE status = 'offered' AND offered_at < orrery_now()", (),
     "chunks_open"),
    ("chunks of a task", "SELECT chunk_id FROM chunks WHERE task_id = $1 AND status = 'offered'", (77,),
     "chunks_task|chunks_latest"),
    ("jobs of a file", "SELECT job_id FROM job_files WHERE file_id = $1", (777,), "job_files_file"),
    ("retries of a job", "SELECT new_job_id FROM job_retry_history WHERE old_job_id = $1", (5,),
     "job_retry_history_old"),
    ("the log of a task", "SELECT * FROM transition_log WHERE task_id = $1 ORDER BY at", (77,), "transition_log"),
    ("decisions about a task",
     "SELECT * FROM brokerage_decisions WHERE task_id = $1 ORDER BY decision_id DESC LIMIT 20", (77,),
     "brokerage_decisions_task"),
    ("transfers of a job", "SELECT status FROM transfers WHERE job_id = $1", (5,), "transfers_job"),
    ("transfers that are due",
     "SELECT transfer_id FROM transfers WHERE status = 'active' AND due_at <= orrery_now()", (), "transfers_due"),
]  # fmt: skip


FILL = """
SET session_replication_role = replica;
INSERT INTO tasks (task_id, task_name, user_name, status, task_type, vo, working_group, processing_type,
                   current_priority, creation_date, command, locked_by, locked_time, retry_at, parent_tid, nucleus)
SELECT n, 'task.' || n, 'user' || n % 400,
       CASE WHEN n % 20 = 0 THEN 'ready' WHEN n % 20 = 1 THEN 'running' WHEN n % 40 = 2 THEN 'pending' ELSE 'done' END,
       CASE WHEN n % 2 = 0 THEN 'prod' ELSE 'anal' END, 'demo', 'wg' || n % 10,
       CASE WHEN n % 3 = 0 THEN 'simul' ELSE 'evgen' END, n % 1000, orrery_now() - n * interval '1 minute',
       CASE WHEN n % 500 = 0 THEN 'kill' END, CASE WHEN n % 500 = 0 THEN 'x' END, orrery_now() - interval '1 hour',
       CASE WHEN n % 200 = 2 THEN orrery_now() END, CASE WHEN n % 50 = 0 THEN n / 50 END, 'N' || n % 20
  FROM generate_series(1, 20000) n;
INSERT INTO task_datasets (dataset_id, task_id, dataset_name, type, status, container_name, n_files_to_be_used,
                           state_check_time, state_check_expiration, locked_by, locked_time)
SELECT n, n, 'dataset.' || n, 'input', 'ready', 'container.' || n / 10, 10, orrery_now() - n * interval '1 hour',
       CASE WHEN n % 500 = 0 THEN orrery_now() END, CASE WHEN n % 500 = 0 THEN 'x' END, orrery_now()
  FROM generate_series(1, 20000) n;
INSERT INTO catalogue.datasets (scope, name, kind) SELECT 's', 'dataset.' || n, 'dataset'
  FROM generate_series(1, 20000) n;
INSERT INTO task_files (file_id, dataset_id, task_id, lfn, scope, type, status, max_attempt, chunk_id, job_id,
                        out_job_id)
SELECT n, n % 2000 + 1, n % 2000 + 1, 'file.' || n, 's', 'input',
       CASE WHEN n % 10 = 0 THEN 'ready' WHEN n % 10 = 1 THEN 'running' WHEN n % 50 = 2 THEN 'picked'
            ELSE 'finished' END,
       3, n / 100, n, CASE WHEN n % 5 = 0 THEN n END
  FROM generate_series(1, 60000) n;
INSERT INTO jobs (job_id, task_id, chunk_id, shape_id, current_priority, core_count, attempt_number, status, queue,
                  resource_type, gshare, user_name, prod_source_label, job_type, results_applied_at, state_change_time,
                  deadline_at)
SELECT n, n % 2000 + 1, n / 100, n % 5, n % 1000, 1, 1,
       CASE WHEN n % 100 = 0 THEN 'sent' WHEN n % 100 < 80 THEN 'activated' WHEN n % 100 < 90 THEN 'running'
            ELSE 'finished' END,
       'Q' || n % 40, 'SCORE', CASE WHEN n % 2 = 0 THEN 'MC' ELSE 'Data' END, 'u', 'managed', 'normal',
       CASE WHEN n % 100 BETWEEN 90 AND 98 THEN orrery_now() END, orrery_now() - n * interval '1 minute',
       CASE WHEN n % 100 < 90 THEN orrery_now() + (n - 400) * interval '1 second' END
  FROM generate_series(1, 40000) n;
INSERT INTO chunks (chunk_id, task_id, kind, status, n_files)
SELECT n, n % 2000 + 1, 'normal', CASE WHEN n % 100 = 0 THEN 'offered' ELSE 'used' END, 1
  FROM generate_series(1, 20000) n;
INSERT INTO job_files (job_id, file_id, dataset_id, task_id, type) SELECT n, n, 1, 1, 'input'
  FROM generate_series(1, 20000) n;
INSERT INTO job_retry_history (task_id, old_job_id, new_job_id) SELECT n, n, n + 1 FROM generate_series(1, 20000) n;
INSERT INTO transition_log (at, entity, entity_id, task_id, to_status, actor, reason)
SELECT orrery_now(), 'task', n, n % 2000, 'ready', 'a', 'r' FROM generate_series(1, 20000) n;
INSERT INTO brokerage_decisions (task_id, kind, plugin, seed, world_version, outcome, summary, names, codes, found,
                                 wanted, weights, checks)
SELECT n % 2000, 'job', 'p', 1, 1, 'none', '{}', '{}', '{}', '{}', '{}', '{}', '{}' FROM generate_series(1, 10000) n;
INSERT INTO transfers (task_id, job_id, direction, activity, destination_storage, n_files, n_bytes, status, due_at)
SELECT n, n, 'input', 'a', 's', 1, 1, CASE WHEN n % 100 = 0 THEN 'active' ELSE 'done' END, orrery_now()
  FROM generate_series(1, 20000) n;
INSERT INTO queue_statistics (queue, resource_type, gshare, user_name, status, n_jobs, n_cores)
SELECT queue, resource_type, gshare, user_name, status, count(*), sum(core_count) FROM jobs
 WHERE status <> 'finished' GROUP BY 1, 2, 3, 4, 5;
INSERT INTO queue_activity (queue) SELECT DISTINCT queue FROM jobs;
ANALYZE;
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def populated(servers_of_tests: servers.Servers, database_template: str) -> AsyncIterator[asyncpg.Connection]:
    """A database with tens of thousands of rows, with statistics."""
    url = await servers.clone_template(servers_of_tests.database_url, database_template)
    connection = await asyncpg.connect(url)
    await connection.execute(FILL)
    yield connection
    await connection.close()
    await servers.drop_database(servers_of_tests.database_url, url)


async def indexes_used(connection: asyncpg.Connection, statement: str, arguments: tuple[object, ...]) -> set[str]:
    """The indexes in the plan; "seq:TABLE" for each table that is read whole."""
    text = await connection.fetchval(f"EXPLAIN (FORMAT JSON) {statement}", *arguments)
    found: set[str] = set()

    def walk(node: dict[str, object]) -> None:
        if node["Node Type"] == "Seq Scan":
            found.add(f"seq:{node['Relation Name']}")
        if "Index Name" in node:
            found.add(str(node["Index Name"]))
        for child in node.get("Plans", []):  # type: ignore[attr-defined]
            walk(child)

    walk(json.loads(text)[0]["Plan"])
    return found


async def test_every_typical_usage_and_hot_query_uses_its_index(populated: asyncpg.Connection) -> None:
    wrong = []
    for name, statement, arguments, wanted in (*TASKS, *DATASETS, *FILES, *JOBS):
        used = await indexes_used(populated, statement, arguments)
        big = {one for one in used if one.startswith("seq:") and "_2" not in one and "default" not in one}
        if big or not any(one.startswith(tuple(wanted.split("|"))) for one in used):
            wrong.append(f"{name}: {sorted(used)} instead of {wanted}")
    assert wrong == []


async def test_the_usage_of_a_working_group_is_read_from_its_live_tasks_alone(populated: asyncpg.Connection) -> None:
    from services.job_brokerage.store.usage import SQL as USAGE
    from services.job_brokerage.waking import SQL as WAKING

    for statement, arguments in (
        (WAKING.text("usage_of_groups"), (["atlas", "atlas"], ["wg0", "wg1"])),
        (USAGE.text("usage_of_group"), ("wg0", "atlas")),
    ):
        used = await indexes_used(populated, statement, arguments)
        assert "tasks_of_live_group" in used and "seq:tasks" not in used, used
    definition = await populated.fetchval("SELECT indexdef FROM pg_indexes WHERE indexname = 'tasks_of_live_group'")
    assert "'done'" in definition and "'aborted'" in definition


async def test_the_sweep_and_the_watches_do_not_read_big_tables_whole(populated: asyncpg.Connection) -> None:
    from services.watchdog.store.sweeps import SQL
    from services.watchdog.sweeping import SWEEPS

    before = await populated.fetchval("SELECT orrery_now() - interval '30 days'")
    wrong = []
    for kind in SWEEPS:
        given = {"before": before, "since": before, "marked": [7], "after": 0, "upto": 7}
        used = await indexes_used(populated, SQL.text(kind.kind), tuple(map(given.get, SQL.parameters(kind.kind))))
        if used & {"seq:jobs", "seq:task_files", "seq:task_datasets"}:
            wrong.append(f"{kind.kind}: {sorted(used)}")
    assert wrong == []


async def test_the_checks_of_one_task_do_not_read_big_tables_whole(populated: asyncpg.Connection) -> None:
    from services.watchdog.checking import CHECKS

    wrong = []
    for check in CHECKS:
        if check.at_every_commit:
            used = await indexes_used(populated, check.sql, ([77],))
            if used & {"seq:jobs", "seq:task_files", "seq:job_files", "seq:task_datasets"}:
                wrong.append(f"{check.name}: {sorted(used)}")
    assert wrong == []


async def test_of_what_is_not_due_the_watchdog_reads_nothing(populated: asyncpg.Connection) -> None:
    from services.jumbo_watchdog.store.tasks import SQL as JUMBO
    from services.task_definition.tasks.store.notices import SQL as NOTICES
    from services.watchdog.store.deadlines import SQL as DEADLINES
    from services.watchdog.store.due import SQL as DUE
    from services.watchdog.store.filling import SQL as FILLING
    from services.watchdog.store.sweeps import SQL as SWEEPS
    from services.watchdog.sweeping import SWEEPS as KINDS

    now = await populated.fetchval("SELECT orrery_now()")
    given = {
        "before": now - timedelta(days=1), "since": now - timedelta(minutes=2), "marked": [], "most": 500,
        "merges_before": now, "es_priority": 900, "back_since": now - timedelta(hours=6), "gshare": "MC", "after": 0,
        "least_percent": 90, "closed": ["DISK"], "io_intensity": 100, "priority": 800, "label": "managed",
        "minutes": 15, "reason": "r", "allowed": ["ready"], "files_ready": 50, "files_remaining": 100,
        "storages": ["DISK"], "lease_s": 60, "waited_s": 3600, "days": 30,
        "oldest_s": 86400, "no_email": "noEmail",
        "after_priority": -1, "after_id": 0, "upto": 0,
        "gshares": ["MC"], "n_queued": [30.0], "waiting": ["activated"],
    }  # fmt: skip
    asked = [
        (DUE, name) for name in ("due_jobs", "crowded_shares", "forget_waiting", "nearly_done", "withholdable_tasks")
    ]
    asked += [(DEADLINES, name) for name in ("due_deadlines", "forget_deadlines")]
    asked += [(JUMBO, "event_service_tasks"), (FILLING, "sent_tasks"), (FILLING, "fillable_tasks")]
    asked += [(NOTICES, "take_notice"), (NOTICES, "note_waiting"), (NOTICES, "forget_notices")]
    # all ends that nobody counted are due
    asked += [(SWEEPS, one.kind) for one in KINDS if one.kind != "uncounted_jobs"]
    found = {
        name: await rows_read(populated, sql.text(name), tuple(map(given.get, sql.parameters(name))))
        for sql, name in asked
    }
    assert {name: n_rows for name, n_rows in found.items() if n_rows > 20} == {}


async def test_of_what_is_due_the_watchdog_reads_each_row_once(populated: asyncpg.Connection) -> None:
    from services.watchdog.store.due import SQL as DUE

    now = await populated.fetchval("SELECT orrery_now()")
    given = {"before": now, "most": 100, "merges_before": now, "es_priority": 900, "back_since": now}
    n_rows = await rows_read(populated, DUE.text("due_jobs"), tuple(map(given.get, DUE.parameters("due_jobs"))))
    assert 100 <= n_rows <= 100 * 4, "the index, the job, its task"


async def test_of_tasks_that_were_not_tried_since_the_last_look_none_is_read(populated: asyncpg.Connection) -> None:
    from services.watchdog.store.due import SQL as DUE

    await populated.execute("SET session_replication_role = replica")
    await populated.execute(
        "INSERT INTO task_job_counts (task_id, n_finished, n_failed, tried_at)"
        " SELECT task_id, 500, 700, orrery_now() + (task_id - 2000) * interval '1 minute' FROM tasks"
    )
    await populated.execute("ANALYZE task_job_counts")
    await populated.execute("SET session_replication_role = DEFAULT")
    now = await populated.fetchval("SELECT orrery_now()")
    given = {
        "since": now + timedelta(seconds=1), "every_attempts": 5, "most": 500, "gshares": [], "rates_percent": [],
        "hep_score_rates_percent": [], "usual_power": 10.0, "queues": [], "powers": [], "label": "managed",
        "usual_hep_score_rate_percent": None, "least_jobs": 1000, "usual_rate_percent": 50.0, "exempt": "noAutoPause",
        "least_remaining": 100,
    }  # fmt: skip
    for hours, most in ((0, 4 * 18_000), (290, 4 * 600), (400, 0)):
        given["since"] = now + timedelta(hours=hours, seconds=1)
        for name in ("throttle_candidates", "failing_tasks"):
            n_rows = await rows_read(populated, DUE.text(name), tuple(map(given.get, DUE.parameters(name))))
            assert n_rows <= most, f"{name} reads {n_rows} rows since {hours} h later"


async def test_of_groups_that_wait_the_jobs_of_their_tasks_are_read_alone(populated: asyncpg.Connection) -> None:
    from services.watchdog.store.due import SQL as DUE

    now = await populated.fetchval("SELECT orrery_now()")
    given = {
        "task_ids": [77, 77, 78], "chunk_ids": [0, 1, 0], "queues": ["Q1", "Q2", "Q3"], "since": now, "most": 500,
        "waiting": ["activated"], "codes": [105], "back_since": now - timedelta(hours=6),
    }  # fmt: skip
    for name in ("moves_of_groups", "jobs_of_groups"):
        n_rows = await rows_read(populated, DUE.text(name), tuple(map(given.get, DUE.parameters(name))))
        assert n_rows <= 3 * 2 * 20, f"{name} reads {n_rows} rows of two tasks with 20 jobs each"


async def test_who_counts_jobs_reads_those_of_some_queues_at_a_time(populated: asyncpg.Connection) -> None:
    """A queue has 1 000 jobs, 900 of which are live and 100 run."""
    from services.job_brokerage.store.statistics import SQL as STATISTICS
    from services.job_dispatch.store.upkeep import SQL as UPKEEP
    from services.job_dispatch.store.user_caps import SQL as CAPS
    from shared.snapshot.live_queues import SQL as QUEUES

    given = {"queues": ["Q3", "Q30"], "after": "Q29", "upto": "Q3", "most": 2, "ended_within_h": 24}
    most = {"drift": 2 * 900, "measure_disk_io": 2 * 100, "mean_memory_of_queues": 2 * 110, "use_of_queues": 2 * 900}
    asked = [(STATISTICS, "drift"), (STATISTICS, "measure_disk_io"), (UPKEEP, "mean_memory_of_queues")]
    asked += [(CAPS, "use_of_queues"), (QUEUES, "next_queues")]
    wrong = {}
    for sql, name in asked:
        arguments = tuple(map(given.get, sql.parameters(name)))
        used = await indexes_used(populated, sql.text(name), arguments)
        n_rows = await rows_read(populated, sql.text(name), arguments)
        # each job, its statistics, and tasks by key
        if "seq:jobs" in used or "jobs_live" not in used or n_rows > 3 * most.get(name, 10) + 100:
            wrong[name] = (n_rows, sorted(used))
    assert wrong == {}


async def test_who_counts_jobs_of_accounts_reads_those_that_may_run_too_many_alone(
    populated: asyncpg.Connection,
) -> None:
    from services.job_dispatch.store.user_caps import SQL as CAPS
    from services.share_correction.store.usage import SQL as USAGE
    from services.watchdog.store.due import SQL as DUE

    given = {
        "least_jobs": 10**6, "least_cores": 10**6, "least_group_jobs": 10**6, "least_group_cores": 10**6,
        "gshares": ["MC"], "vos": ["demo"], "user_names": ["user5"], "queues": [], "core_powers_hs06": [],
        "usual_hs06": 10.0,
    }  # fmt: skip
    n_members = await populated.fetchval("SELECT count(*) FROM orrery_members_of_live_groups()")
    asked = [(CAPS, "use_of_accounts"), (DUE, "running_of_accounts")]
    asked += [(USAGE, "usage_suspects"), (USAGE, "usage_differences")]
    found = {
        name: await rows_read(populated, sql.text(name), tuple(map(given.get, sql.parameters(name))))
        for sql, name in asked
    }
    assert {name: n_rows for name, n_rows in found.items() if n_rows > n_members + 20} == {}


async def test_a_slice_of_the_audit_of_counters_reads_what_it_compares_alone(populated: asyncpg.Connection) -> None:
    """A dataset has 30 files, a task one dataset."""
    from services.job_generation.store.audits import FILE_STATES, SQL

    given = {"ids": [77, 78], "task_id": 700, "id": 0, "most": 20, "dataset_id": 77, "after_file_id": 0}
    given |= {"at": datetime.now(UTC), "statuses": list(FILE_STATES)}
    most = {"next_datasets": 2 * 20, "counter_differences": 2 * (1 + 30), "count_part": 20, "next_job_sets": 0}
    most |= {"set_differences": 0, "next_ended_datasets": 0}
    found = {
        name: await rows_read(populated, SQL.text(name), tuple(map(given.get, SQL.parameters(name)))) for name in most
    }
    assert {name: n_rows for name, n_rows in found.items() if n_rows > most[name]} == {}


async def test_of_tasks_that_are_not_too_long_in_a_state_the_condition_reads_none(
    populated: asyncpg.Connection,
) -> None:
    from services.watchdog.policy.condition import USUAL_OF_TASKS
    from services.watchdog.store.condition import SQL as CONDITION

    given = {"statuses": list(USUAL_OF_TASKS), "usual_s": list(USUAL_OF_TASKS.values()), "at_most": 10_000}
    statement, names = CONDITION.text("tasks_too_long"), CONDITION.parameters("tasks_too_long")
    assert await rows_read(populated, statement, tuple(map(given.get, names))) == 0
    used = await indexes_used(populated, statement, tuple(map(given.get, names)))
    assert used == {"tasks_passing"}, used


async def test_which_tasks_of_a_user_are_longest_in_their_state_is_read_from_an_index(
    populated: asyncpg.Connection,
) -> None:
    from services.task_definition.tasks.store.reads import SQL as READS

    given = {"user_name": "user2", "statuses": ["pending", "throttled"], "at_most": 10, "reader": "user2"}
    statement, names = READS.text("longest_in_state"), READS.parameters("longest_in_state")
    used = await indexes_used(populated, statement, tuple(map(given.get, names)))
    assert used == {"tasks_passing_of_user"}, used


async def test_who_goes_through_tasks_at_work_reads_an_index_of_these_alone(populated: asyncpg.Connection) -> None:
    from services.job_generation.store.audits import SQL as AUDITS
    from services.watchdog.store.sweeps import SQL as SWEEPS

    given = {"after": 700, "most": 20, "task_id": 700, "id": 0}
    found = {}
    for sql, name in ((SWEEPS, "upto_task"), (AUDITS, "next_datasets")):
        found[name] = await indexes_used(populated, sql.text(name), tuple(map(given.get, sql.parameters(name))))
    assert found == {"upto_task": {"tasks_in_turn"}, "next_datasets": {"tasks_in_turn", "task_datasets_task"}}
