"""Why a task or a job waits, as facts and as one text.

It unpacks stored decisions, counts jobs by state and reads the history.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import asyncpg

from services.task_definition.tasks.policy.explaining import (
    job_text,
    job_waits_for,
    latest_first,
    pilot_says,
    task_meaning,
    task_text,
    without_a_job,
)
from services.task_definition.tasks.policy.input_read import left_out_of
from services.task_definition.tasks.policy.pace import range_of_end
from services.task_definition.tasks.policy.position import Position, ShareBeside, position_of
from services.task_definition.tasks.policy.range_reports import fatal_line, refused_line
from services.task_definition.tasks.policy.state_texts import archived_task_text, job_state_text, task_state_text
from services.task_definition.tasks.policy.time_out_texts import time_out, watched_job
from services.task_definition.tasks.policy.waiting import part_line, telling, waits_for
from services.task_definition.tasks.store import reads as store_reads
from services.task_definition.tasks.store.archived import archived_task
from services.task_definition.tasks.store.explanations import SQL
from services.task_definition.tasks.store.reads import TaskFilter
from shared.auth import Caller
from shared.auth.access import DETAILS, Whose
from shared.auth.state_view import JOB_COLUMNS, TASK_COLUMNS, WITHHELD, state_of
from shared.brokerage.difference import difference
from shared.brokerage.explained import Stored, explain_row
from shared.brokerage.matchmaking import Advert, JobFacts, at_dispatch, refusal
from shared.config.parameters import Parameters
from shared.model.co_jumbo import CO_JUMBO_QUEUE, shown_queue
from shared.order.tree import Node
from shared.snapshot import KnownGrid
from shared.states.job import FINAL
from shared.states.job import MEANINGS as JOB_MEANINGS
from shared.states.task import TaskStatus
from shared.timeouts.added import rules_in_force
from shared.timeouts.built_in import CAME_BACK_S
from shared.timeouts.hearing import EVERYBODY, hearings, look_back
from shared.timeouts.limits import limits_of
from shared.timeouts.outages import outage_times
from shared.timeouts.queues import queue_facts
from shared.timeouts.rule import ES_PRIORITY

WITHOUT_COUNTS: dict[str, list[dict[str, Any]]] = {"queues": [], "failures": [], "taken_back": [], "retry_rules": []}
#: of a decision that is told in part: words are made of it
WORDS_ALONE = frozenset({"n_of_queue", "n_may_pass"})
DECISIONS, HISTORY, REQUESTS, AHEAD_AT_MOST = 3, 20, 10, 100_000
#: of a job: steps of its chain each way, jobs of it each way, siblings, and how far their ids may be from its own
STEPS, CHAIN, SIBLINGS, NEAR = 20, 20, 20, 100


@dataclass(frozen=True)
class Asked:
    """How much of an explanation is told; as it stands all of it.

    `everything`: each queue of each decision in the text. Without `counts` jobs are not counted, which costs most where
    there are many, and there is no text. `count_to`: so many jobs of each state are counted at the most. `queues`: so
    many of each check are told at the most, of the `decisions` named, or of the first; None: all of all decisions.
    """

    everything: bool = False
    counts: bool = True
    count_to: int | None = None
    queues: int | None = None
    decisions: Sequence[int] = ()


#: what a task has as rows, and the statement of each
_LISTS = {
    "notices": "notices_of_task",
    "orders": "orders_of_task",
    "passed_over": "passed_over_of_task",
    "stage_ins": "stage_ins_of_task",
    "chunks": "open_chunks",
    "messages": "messages_of_task",
    "generation_history": "generation_history",
}
#: an explanation that nobody shortened
ALL = Asked()


class Explanation:
    """Stateless; reads only."""

    def __init__(self, grid: KnownGrid, parameters: Parameters | None = None) -> None:
        self._grid, self._parameters = grid, parameters or Parameters()

    async def task(
        self,
        connection: asyncpg.Connection,
        task_id: int,
        caller: Caller,
        asked: Asked = ALL,
    ) -> dict[str, Any] | None:
        """Everything known about one task's progress.

        To others than those who may have its details its state, files and jobs by state alone.
        """
        task = await SQL.row(connection, "task_facts", task_id=task_id)
        if task is None:
            return await _archived(connection, task_id, caller)
        wanted = TaskFilter(task_ids=[task_id], at_most=1)
        [listed] = await store_reads.list_tasks(connection, wanted, caller, jobs=asked.counts, count_to=asked.count_to)
        jobs = listed.get("jobs", {})
        if WITHHELD in listed:
            state = {"task": state_of(dict(task), TASK_COLUMNS), "files": listed["files"], "jobs": jobs}
            return {**state, "text": task_state_text(state) if asked.counts else ""}
        decisions = await SQL.rows(connection, "decisions_of_task", task_id=task_id, chunk_id=None, at_most=DECISIONS)
        generation = await SQL.row(connection, "generation_decision", task_id=task_id)
        deadline = await SQL.row(connection, "deadline_of_task", task_id=task_id)
        found: dict[str, Any] = {
            "task": dict(task),
            "files": listed["files"],
            "unused_input": await _unused_input(connection, task_id),
            "jobs": jobs,
            "held_back": listed["held_back"],
            "generation": None if generation is None else dict(generation),
            "deadline": None if deadline is None else dict(deadline),
            "ends": await _end_of(connection, task, listed["files"]) if asked.counts else None,
            "more_jobs": listed.get("more_jobs", []),
            "decisions": _unpacked(decisions, asked, _worded(decisions, task["status"], asked)),
            "waits": [_part(row, asked) for row in await SQL.rows(connection, "waiting_parts", task_id=task_id)],
            **{name: await _dicts(connection, statement, task_id) for name, statement in _LISTS.items()},
            **(await _counted_jobs(connection, task_id, asked.count_to) if asked.counts else WITHOUT_COUNTS),
            "catalogue": [
                dict(row)
                for row in await SQL.rows(connection, "catalogue_requests_of_task", task_id=task_id, at_most=REQUESTS)
            ],
            "refused_ranges": [
                refused_line(dict(row)) for row in await SQL.rows(connection, "refused_ranges_of_task", task_id=task_id)
            ],
            "fatal_ranges": [
                fatal_line(dict(row)) for row in await SQL.rows(connection, "fatal_ranges_of_task", task_id=task_id)
            ],
            "history": latest_first(
                [dict(row) for row in await SQL.rows(connection, "history_of_task", task_id=task_id, at_most=HISTORY)]
            ),
        }
        found["meaning"] = task_meaning(found["task"], found["decisions"])
        found["text"] = task_text(found, everything=asked.everything) if asked.counts else ""
        return found if asked.queues is None else _shortened(found, decisions, asked)

    async def job(
        self, connection: asyncpg.Connection, job_id: int, caller: Caller, asked: Asked = ALL
    ) -> dict[str, Any] | None:
        """The same for a job, live or archived."""
        row = await SQL.row(connection, "job_facts", job_id=job_id)
        if row is None:
            return None
        job = dict(row)
        if not DETAILS.allows(caller, Whose.of(job["owner"], job["vo"])):
            state = {"job": state_of(job, JOB_COLUMNS)}
            return {**state, "text": job_state_text(state)}
        decisions = await SQL.rows(
            connection, "decisions_of_task", task_id=job["task_id"], chunk_id=job["chunk_id"], at_most=DECISIONS
        )
        about = [one for one in decisions if one["chunk_id"] == job["chunk_id"]]
        unplaceable = await self._unplaceable_merging(connection, job)
        ruled = await SQL.row(connection, "retry_decision_of_job", job_id=job_id)
        found: dict[str, Any] = {
            "job": job,
            "retry_rule": None if ruled is None else dict(ruled),
            "waits_for": [] if job["archived"] else await self._waits_for(connection, job),
            "time_out": await self._time_out(connection, job),
            "transfers": [dict(one) for one in await SQL.rows(connection, "transfers_of_job", job_id=job_id)],
            **(await _relatives(connection, job)),
            "decisions": _unpacked([*unplaceable, *about], asked),
            "history": latest_first(
                [dict(one) for one in await SQL.rows(connection, "history_of_job", job_id=job_id, at_most=HISTORY)]
            ),
        }
        found["waits_for"] += [f"merge chunk {one['chunk_id']} found no queue, see below" for one in unplaceable]
        found["text"] = job_text(found, everything=asked.everything)
        return found if asked.queues is None else _shortened(found, [*unplaceable, *about], asked)

    async def difference(
        self, connection: asyncpg.Connection, task_id: int, ids: Sequence[int], caller: Caller, at_most: int | None
    ) -> dict[str, Any] | None:
        """Tell how two decisions about a task differ; None where it or one of them is not there, or not told.

        Decisions of two kinds have nothing to compare: `changes` is null then.
        """
        task = await SQL.row(connection, "task_facts", task_id=task_id)
        if task is None or not DETAILS.allows(caller, Whose.of(task["user_name"], task["vo"])):
            return None
        rows = await SQL.rows(connection, "named_decisions", task_id=task_id, decision_ids=list(ids))
        kept = {row["decision_id"]: dict(row) for row in rows}
        if not all(one in kept for one in ids):
            return None
        first, second = (kept[one] for one in ids)
        told: dict[str, Any] = {"task_id": task_id, "first": ids[0], "second": ids[1]}
        if first["kind"] != second["kind"]:
            return {**told, "changes": None, "n_changes": {}}
        found = difference(Stored(first), Stored(second), at_most)
        return {**told, "changes": found.changes, "n_changes": found.numbers}

    async def _unplaceable_merging(self, connection: asyncpg.Connection, job: dict[str, Any]) -> list[asyncpg.Record]:
        """The last decision about merging for the task of a job that waits for it, if no queue was found."""
        if job["status"] != "merging":
            return []
        last = await SQL.row(connection, "last_decision_about_merging", task_id=job["task_id"])
        return [last] if last is not None and last["outcome"] == "none" else []

    async def _waits_for(self, connection: asyncpg.Connection, job: dict[str, Any]) -> list[str]:
        if job["status"] == "activated":
            queue = await self._queue_now(connection, job["queue"])
            starts = await SQL.value(connection, "starts_at_queue", queue=job["queue"])
            position = await _position(connection, job)
            refused = await self._refused(connection, job)
            rows = await SQL.rows(connection, "pilots_without_a_job", queue=job["queue"])
            got_nothing = [dict(one) for one in rows]
            return [*refused, *job_waits_for(job, queue, position, starts), *without_a_job(got_nothing)]
        said = await SQL.row(connection, "progress_of_job", job_id=job["job_id"])
        told = [] if said is None else [pilot_says(said["progress"], said["reported_at"])]
        return [*job_waits_for(job, None, None, 0), *told]

    async def _time_out(self, connection: asyncpg.Connection, job: dict[str, Any]) -> dict[str, Any] | None:
        """Which time-out rule ends the job next, and when; None for a job that has ended."""
        row = await SQL.row(connection, "asked_of_time_outs", job_id=job["job_id"], es_priority=ES_PRIORITY,
                            back_s=self._parameters.read(CAME_BACK_S))  # fmt: skip
        if job["archived"] or job["status"] in FINAL or row is None:
            return None
        grid, name = await self._grid.grid(connection), job["queue"] or CO_JUMBO_QUEUE
        queue = (await queue_facts(connection, grid, self._parameters, only=name)).get(name)
        rules, asked = await rules_in_force(connection), dict(row)
        limits = limits_of(self._parameters, rules, [queue.workflow] if queue is not None else [])
        now, grace_until = asked.pop("now"), asked.pop("grace_until")
        times = outage_times(self._parameters)
        heard = await hearings(connection, now, look_back(limits.longest_silence, times), times)
        hearing = heard.get(job["vo"] or EVERYBODY, heard[EVERYBODY])
        return time_out(watched_job(job, asked, queue), limits, rules, now, hearing, grace_until)

    async def _queue_now(self, connection: asyncpg.Connection, name: str) -> dict[str, Any] | None:
        """Status, pilots and jobs of a queue; None if the grid has none of this name."""
        queue = (await self._grid.grid(connection)).queues.get(name)
        row = await SQL.row(connection, "activity_of_queue", queue=name)
        return None if queue is None or row is None else {**row, "status": queue.status.value}

    async def _refused(self, connection: asyncpg.Connection, job: dict[str, Any]) -> list[str]:
        """Why the site of the queue does not take the job now, as the dispatcher asks it (SAM-Grid)."""
        queue = (await self._grid.grid(connection)).queues.get(job["queue"])
        advert = await SQL.row(connection, "advert_of_site", site=queue.site) if queue is not None else None
        asked = await SQL.row(connection, "asked_of_job", job_id=job["job_id"]) if advert is not None else None
        if advert is None or asked is None:
            return []
        facts = JobFacts.of(dict(asked), core_count=asked["core_count"], ram_mb=asked["ram_mb"])
        found = refusal(at_dispatch(Advert.of(dict(advert))), facts)
        return [] if found is None else [f"not handed out by the site's advertisement: {found.reason}"]


async def _dicts(connection: asyncpg.Connection, statement: str, task_id: int) -> list[dict[str, Any]]:
    return [dict(row) for row in await SQL.rows(connection, statement, task_id=task_id)]


async def _archived(connection: asyncpg.Connection, task_id: int, caller: Caller) -> dict[str, Any] | None:
    """What is left to tell of a task whose rows were dropped; None: there was none."""
    archived = await archived_task(connection, task_id)
    if archived is None:
        return None
    task = archived.details(caller)
    files, datasets = task.pop("files"), task.pop("datasets")
    found: dict[str, Any] = {"task": task, "files": files, "jobs": {}, "datasets": datasets, "decisions": [],
                             "waits": [], "history": [], "archived_at": archived.archived_at}  # fmt: skip
    text = archived_task_text(found)
    return {**found, "meaning": text.partition("\n")[0], "text": text}


async def _position(connection: asyncpg.Connection, job: dict[str, Any]) -> Position:
    """How many jobs are before a waiting one, by the jobs as they are and the statistics of shares."""
    key = {
        "queue": job["queue"], "gshare": job["gshare"], "priority": job["current_priority"], "job_id": job["job_id"],
        "at_most": AHEAD_AT_MOST,
    }  # fmt: skip
    in_share = await SQL.value(connection, "ahead_of_job", **key)
    in_lane = await SQL.value(
        connection, "ahead_in_lane", order_key_id=job["order_key_id"], shape_id=job["shape_id"], **key
    )
    shares = [
        ShareBeside(Node(name, value, parent, factor, stretchable), *numbers)
        for name, value, parent, factor, stretchable, *numbers in await SQL.rows(
            connection, "shares_at_queue", queue=job["queue"]
        )
    ]
    return position_of(job["gshare"], in_lane, in_share, shares, is_drawn=job["order_key_id"] != 0)


def _part(row: asyncpg.Record, asked: Asked) -> dict[str, Any]:
    """What a part of a task waits for, with the queues of the decision about it."""
    kept = ("waits_for", "work", "part", "since", "retry_at", "n_futile", "not_before", "woken_by", "decision_id",
            "outcome")  # fmt: skip
    is_shown = row["decision_id"] is not None and (asked.counts or asked.queues != 0)
    part = {**{name: row[name] for name in kept}, "lifts": row["causes"].get("lifts", [])}
    told = _entries(row, asked, None) if is_shown else {"queues": []}
    queues = told["queues"] if asked.queues is None else []
    return {**part, "queues": queues, "text": part_line({**part, **told})}


async def _end_of(
    connection: asyncpg.Connection, task: asyncpg.Record, files: Mapping[str, Any]
) -> dict[str, Any] | None:
    pace = await SQL.one(connection, "pace_of_task", task_id=task["task_id"])
    return range_of_end(task["status"], files, dict(pace))


async def _unused_input(connection: asyncpg.Connection, task_id: int) -> list[str]:
    rows = await SQL.rows(connection, "unused_input", task_id=task_id)
    return [line for row in rows for line in left_out_of(*row.values())]


async def _counted_jobs(
    connection: asyncpg.Connection, task_id: int, count_to: int | None
) -> dict[str, list[dict[str, Any]]]:
    """Where its jobs are, what they failed of, and what rules did about that."""
    key = {"task_id": task_id, "count_to": count_to}
    queues = await SQL.rows(connection, "queues_of_task", statuses=list(JOB_MEANINGS), **key)
    failures = await SQL.rows(connection, "failures_of_task", **key)
    taken_back = await SQL.rows(connection, "taken_back_of_task", **key)
    ruled = await SQL.rows(connection, "retry_decisions_of_task", **key)
    return {
        "queues": [{**row, "queue": shown_queue(row["queue"])} for row in queues],
        "failures": [
            {**row, "queues": [{**one, "queue": shown_queue(one["queue"])} for one in row["queues"]]}
            for row in failures
        ],
        "taken_back": [dict(row) for row in taken_back],
        "retry_rules": [dict(row) for row in ruled],
    }


async def _relatives(connection: asyncpg.Connection, job: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Which jobs a job follows and is followed by, and some that were made with it."""
    job_id, chunk_id = job["job_id"], job["chunk_id"]
    chain = await SQL.rows(connection, "chain_of_job", job_id=job_id, most_steps=STEPS, at_most=CHAIN)
    siblings = await SQL.rows(
        connection, "siblings_of_job", job_id=job_id, chunk_id=chunk_id, near=NEAR, at_most=SIBLINGS
    )
    return {
        "chain": [{**row, "queue": shown_queue(row["queue"])} for row in chain],
        "siblings": sorted((dict(row) for row in siblings), key=lambda one: one["job_id"]),
    }


def _told_of(rows: Sequence[asyncpg.Record], asked: Asked) -> Collection[int]:
    """The decisions of which queues are told: those that are named, or the first."""
    kept = [row["decision_id"] for row in rows]
    return [one for one in kept if one in asked.decisions] or kept[:1]


def _worded(rows: Sequence[asyncpg.Record], status: TaskStatus, asked: Asked) -> Collection[int]:
    """The decisions of which something is said: in the text of all, in the meaning of pending of the first."""
    if asked.queues is None or asked.counts:
        return [row["decision_id"] for row in rows]
    told_of = _told_of(rows, asked) if asked.queues else []
    return [*told_of, *(row["decision_id"] for row in rows[:1] if status == "pending")]


def _entries(row: asyncpg.Record, asked: Asked, miss: Any) -> dict[str, Any]:
    """The queues of a decision: all of them where all are told, else those that its words are made of."""
    if asked.queues is None or asked.everything:
        return {"queues": explain_row(dict(row))}
    return telling(Stored(dict(row)), miss)


def _unpacked(
    rows: Sequence[asyncpg.Record], asked: Asked, worded: Collection[int] | None = None
) -> list[dict[str, Any]]:
    """Decisions with what is said of their queues; of those that are not in `worded` nothing is."""
    kept = ("decision_id", "kind", "chunk_kind", "chunk_id", "decided_at", "plugin", "seed", "world_version",
            "outcome", "chosen", "retry_at", "summary")  # fmt: skip
    found = []
    for row in rows:
        is_worded = worded is None or row["decision_id"] in worded
        told = _entries(row, asked, row["summary"].get("nearest_miss")) if is_worded else {"queues": []}
        found.append({**{name: row[name] for name in kept}, **told})
    return [{**one, "waits_for": waits_for(one)} for one in found]


def _shortened(found: dict[str, Any], rows: Sequence[asyncpg.Record], asked: Asked) -> dict[str, Any]:
    """The same with few queues of few decisions; `by_check` says how many there are of those that are told in part."""
    decisions, told_of = [], _told_of(rows, asked)
    for one, row in zip(found["decisions"], rows, strict=True):
        queues: Sequence[Any] = ()
        numbers: Sequence[Any] = ()
        if asked.queues and one["decision_id"] in told_of:
            queues, numbers = Stored(dict(row)).shortened(one["summary"].get("nearest_miss"), asked.queues)
        facts = {name: value for name, value in one.items() if name not in WORDS_ALONE}
        decisions.append({**facts, "queues": queues, "by_check": numbers})
    return {**found, "decisions": decisions}
