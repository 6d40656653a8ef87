"""Why a queue has the work that it has, as sentences; pure: facts in, text out.

Of tasks that the reader may not read there are numbers alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from services.task_definition.tasks.policy.generation_texts import moment
from shared.brokerage.check import Check, Tier, compared
from shared.brokerage.pipeline import PASSED
from shared.model.queue import Queue
from shared.model.visible_text import visible
from shared.states.job import JobStatus

Facts = Mapping[str, Any]
#: jobs that count as queued for the cap
CAPPED: tuple[JobStatus, ...] = ("defined", "assigned", "activated", "starting")
#: tasks and checks that are named, each
SHOWN = 8


def decided(rows: Iterable[Facts]) -> dict[str, Any]:
    """Decisions about the queue by what they found.

    It was chosen, it passed and others were chosen, or a check left it out.
    """
    placed = defaultdict[int, list[Facts]](list)
    passed, refused = list[Facts](), defaultdict[int, list[Facts]](list)
    n_rows, since = 0, None
    for row in rows:
        n_rows, since = n_rows + 1, row["decided_at"]
        if row["chosen"]:
            placed[row["task_id"]].append(row)
        elif row["code"] == PASSED:
            passed.append(row)
        else:
            refused[row["code"]].append(row)
    told = [_placed(some) for some in placed.values() if some[0]["may_read"]]
    hidden = [some for some in placed.values() if not some[0]["may_read"]]
    return {
        "n_decisions": n_rows,
        "since": since,
        "placed": sorted(told, key=lambda one: (-one["n_chunks"], one["task_id"])),
        "placed_of_others": {"n_tasks": len(hidden), "n_chunks": sum(map(len, hidden))},
        "not_chosen": {"n_chunks": len(passed), "n_tasks": len({row["task_id"] for row in passed})},
        "refused": sorted(map(_refused, refused.values()), key=lambda one: (-one["n_chunks"], one["check"])),
    }


def _placed(rows: Sequence[Facts]) -> dict[str, Any]:
    first = rows[0]
    return {
        "task_id": first["task_id"],
        "task_name": first["task_name"],
        "n_chunks": len(rows),
        "last_at": first["decided_at"],
    }


def _refused(rows: Sequence[Facts]) -> dict[str, Any]:
    """One check: how often it left the queue out, and the latest case that the reader may see."""
    stored = rows[0]["check"]
    told = next((row for row in rows if row["may_read"]), None)
    example = None
    if told is not None:
        check = Check(told["code"], stored["name"], Tier(stored["tier"]), stored["temporary"], told["check"]["found"],
                      told["check"]["wanted"], told["check"]["unit"], tuple(told["check"]["words"]))  # fmt: skip
        example = {
            "task_id": told["task_id"],
            "found": f"{check.found} {check.text(told['found'])}",
            "wanted": f"{check.wanted} {check.text(told['wanted'])}",
            "at": told["decided_at"],
        }
    return {
        "check": stored["name"],
        "tier": stored["tier"],
        "temporary": stored["temporary"],
        "n_chunks": len(rows),
        "n_tasks": len({row["task_id"] for row in rows}),
        "parameters": stored.get("parameters", []),
        "example": example,
    }


def limits_of(queue: Queue) -> dict[str, Any]:
    """What the grid says that it takes; what is not limited is left out."""
    known = {
        "cores of a job": queue.core_count if queue.core_count > 1 else None,
        "capability": queue.capability,
        "memory at least MB": queue.min_rss_mb,
        "memory at most MB": queue.max_rss_mb,
        "walltime at least s": queue.min_time_s,
        "walltime at most s": queue.max_time_s,
        "work directory at most MB": queue.max_work_dir_mb,
        "input at most MB": queue.max_input_size_mb,
        "jobs in transferring": queue.transferring_limit,
        "share policy": queue.fair_share_policy,
    }
    return {name: value for name, value in known.items() if value}


def caps_of(jobs: Iterable[Facts], floor: int) -> list[dict[str, Any]]:
    """How many jobs of production of each VO may be queued for each resource type.

    Twice those of the VO that run, at least the floor.

    Example: with 3 running and a floor of 20, 21 queued ones are too many for another. What pilot factories say of
    workers and slots may count for more.
    """
    counts = defaultdict[tuple[str, str], dict[str, int]](lambda: {"n_queued": 0, "n_running": 0})
    for row in jobs:
        if row["status"] in CAPPED:
            counts[row["resource_type"], row["vo"]]["n_queued"] += row["n_jobs"]
        elif row["status"] == "running":
            counts[row["resource_type"], row["vo"]]["n_running"] += row["n_jobs"]
    return [
        {"resource_type": name, "vo": vo, **one, "at_most": max(floor, 2 * one["n_running"])}
        for (name, vo), one in sorted(counts.items())
    ]


def queue_text(found: Facts) -> str:
    """The explanation of a queue."""
    queue = found["queue"]
    lines = [f"queue {queue['queue']} of {queue['site']}: {queue['status']}, {queue['type']}"]
    if queue["cordon_reason"]:
        since = moment(queue["cordoned_at"])
        lines.append(f"  cordoned by {queue['cordoned_by']} since {since}: {queue['cordon_reason']}")
        lines.append(f"  orrery uncordon {queue['queue']} opens it again")
    if found["limits"]:
        lines.append("  takes: " + ", ".join(f"{name} {value}" for name, value in found["limits"].items()))
    lines += [
        f"  queued {one['resource_type']}{_of_vo(one)}: {one['n_queued']}; "
        f"production is given more below {one['at_most']} (twice "
        f"the {one['n_running']} that run, workers or slots where they are more, at least NQUEUELIMITSITE)"
        for one in found["caps"]
    ]
    lines += [f"  {line}" for line in (*_slot_lines(queue), *_pilot_lines(queue, found["pilots_without_a_job"]))]
    lines += [f"  {line}" for line in (*_job_lines(found), *_decision_lines(found["decisions"]))]
    return "\n".join(map(visible, lines))


def _slot_lines(queue: Facts) -> Iterable[str]:
    if queue["n_slots"] is not None or queue["slots_of_type"]:
        of_type = ", ".join(f"{name} {n}" for name, n in (queue["slots_of_type"] or {}).items())
        whole = "" if queue["n_slots"] is None else f"{queue['n_slots']} "
        yield f"slots that its pilot factory wants: {whole}{f'({of_type})' if of_type else ''}".rstrip()
    if queue["max_jobs"] is not None or queue["requirements"]:
        most = "" if queue["max_jobs"] is None else f"at most {queue['max_jobs']} jobs, has {queue['current_jobs']}; "
        yield f"its site advertises: {most}{queue['current_matches']} matched; {queue['requirements'] or ''}".rstrip(
            "; "
        )


def _pilot_lines(queue: Facts, without: Sequence[Facts]) -> Iterable[str]:
    if queue["last_pilot_at"] is None:
        yield "no pilot has asked there yet"
    else:
        started = moment(queue["last_job_start_at"]) or "never"
        yield f"last pilot {moment(queue['last_pilot_at'])}, last job taken {started}"
    if queue["running_workers"] or queue["submitted_workers"]:
        yield f"workers: {queue['running_workers']} running, {queue['submitted_workers']} submitted"
    if without:
        yield "pilots that left without a job (last hour):"
    for one in without:
        reason = f": {one['reason']}" if one.get("reason") else ""
        yield f"  {one['why']}: {one['n_pilots']} so far, last {moment(one['last_at'])}{reason}"


def _job_lines(found: Facts) -> Iterable[str]:
    by_share = defaultdict[str, list[str]](list)
    for row in found["jobs"]:
        by_share[f"{row['gshare']} {row['resource_type']}{_of_vo(row)}"].append(f"{row['n_jobs']} {row['status']}")
    yield "jobs by share:" if by_share else "no jobs"
    for share, counts in sorted(by_share.items()):
        yield f"  {share}: {', '.join(counts)}"
    told = [one for one in found["waiting"] if one["task_id"] is not None]
    others = [one for one in found["waiting"] if one["task_id"] is None]
    if found["waiting"]:
        yield "who waits for pilots there:"
    for one in told[:SHOWN]:
        yield f"  task {one['task_id']} {one['task_name']}: {one['n_jobs']} jobs"
    if len(told) > SHOWN:
        yield f"  {len(told) - SHOWN} more tasks"
    for one in others:
        yield f"  {_tasks(one['n_tasks'])} of others: {one['n_jobs']} jobs"


def _decision_lines(decisions: Facts) -> Iterable[str]:
    if not decisions["n_decisions"]:
        yield "no decision of the last hour looked at it"
        return
    since = f", since {moment(decisions['since'])}" if decisions["since"] else ""
    yield f"brokerage of the last hour ({decisions['n_decisions']} decisions that looked at it{since}):"
    placed, others = decisions["placed"], decisions["placed_of_others"]
    for one in placed[:SHOWN]:
        yield f"  placed: task {one['task_id']} {one['task_name']}: {_chunks(one['n_chunks'])}"
    if len(placed) > SHOWN:
        yield f"  placed: {len(placed) - SHOWN} more tasks"
    if others["n_tasks"]:
        yield f"  placed: {_tasks(others['n_tasks'])} of others: {_chunks(others['n_chunks'])}"
    if not placed and not others["n_tasks"]:
        yield "  nothing was placed"
    if decisions["not_chosen"]["n_chunks"]:
        yield f"  passed, and others were chosen: {_chunks(decisions['not_chosen']['n_chunks'])}"
    for one in decisions["refused"]:
        kind = f"{one['tier']}, {'may pass' if one['temporary'] else 'stays until somebody changes it'}"
        yield f"  left out by {one['check']} ({kind}): {_chunks(one['n_chunks'])} of {_tasks(one['n_tasks'])}"
        example = one["example"]
        if example is not None:
            yield f"    last for task {example['task_id']}: {compared(example['found'], example['wanted'])}"
        if one["parameters"]:
            yield f"    governed by {', '.join(one['parameters'])} (orrery config list)"


def _of_vo(one: Facts) -> str:
    return f" of vo {one['vo']}" if one["vo"] else ""


def _tasks(n: int) -> str:
    return f"{n} task{'s' * (n != 1)}"


def _chunks(n: int) -> str:
    return f"{n} chunk{'s' * (n != 1)}"
