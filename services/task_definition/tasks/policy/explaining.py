"""Why a task or a job is where it is, as sentences; pure: facts in, text out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from services.task_definition.data.policy.outside import request_line
from services.task_definition.tasks.policy.generation_texts import generation_lines, latest_line, moment
from services.task_definition.tasks.policy.large_numbers import written_out
from services.task_definition.tasks.policy.pace import range_line
from services.task_definition.tasks.policy.position import Position
from services.task_definition.tasks.policy.said import said_now
from services.task_definition.tasks.policy.sub_statuses import job_meaning
from services.task_definition.tasks.policy.waiting import REAL_CO_JUMBO, part_line, queues_among, waits_for
from shared.brokerage.check import compared
from shared.brokerage.filters.analysis import (
    DISK_QUOTA,
    QUEUED_CORES,
    QUEUED_JOBS,
    RUNNING_CORES,
    RUNNING_JOBS,
    SHARE_USAGE,
)
from shared.model.co_jumbo import shown_queue
from shared.model.visible_text import visible
from shared.states.task import MEANINGS as TASK_MEANINGS

Facts = Mapping[str, Any]
SHOWN_CHOSEN = 5
#: throttles that hold the task, not a queue: whoever passed the checks before is left out by them, or nobody is
OF_THE_TASK = frozenset(
    check.name for check in (RUNNING_JOBS, QUEUED_JOBS, RUNNING_CORES, QUEUED_CORES, DISK_QUOTA, SHARE_USAGE)
)


def counts(numbers: Mapping[str, int], more: Collection[str] = ()) -> str:
    """ "3 running, more than 10000 finished"; `more`: those that were not counted to their end."""
    told = (f"{'more than ' * (name in more)}{number} {name}" for name, number in numbers.items() if number)
    return ", ".join(told) or "none"


def task_meaning(task: Facts, decisions: Sequence[Facts]) -> str:
    """What the status means; pending is not called temporary where somebody must change something.

    `n_may_pass` of a decision: how many queues may pass, where not all are among its entries.
    """
    meaning = TASK_MEANINGS[task["status"]]
    last = decisions[0] if decisions else None
    miss = last["summary"].get("nearest_miss") if last is not None and last["outcome"] == "none" else None
    if task["status"] != "pending" or last is None or miss is None or miss.get("temporary", True):
        return meaning
    may_pass = last.get("n_may_pass", queues_among(one for one in last["queues"] if one.get("temporary")))
    others = f"; queues left out by what may pass: {may_pass}" if may_pass else ""
    return f"waits for a place: {miss['check']} ({miss['tier']}) stays until somebody changes it{others}"


def task_text(found: Facts, *, everything: bool = False) -> str:
    """The explanation of a task."""
    task = found["task"]
    lines = [f"task {task['task_id']} {task['task_name']}: {task['status']}, {task_meaning(task, found['decisions'])}"]
    lines.append(
        f"  since {moment(task['state_change_time'])}; priority {task['current_priority']}, "
        f"share {task['gshare']}, nucleus {task['nucleus'] or 'none'}"
    )
    if found.get("deadline"):
        lines.append(f"  {deadline_line(found['deadline'])}")
    elif found.get("ends"):
        lines.append(f"  {range_line(found['ends'])}")
    if said := said_now(task):
        lines.append(f"  says: {said}")
    if task["retry_at"]:
        lines.append(f"  will be looked at again at {moment(task['retry_at'])}")
    if task["status"] in ("pending", "paused", "throttled") and task["old_status"]:
        lines.append(f"  goes back to {task['old_status']} then")
    about = (*message_lines(found.get("messages", ())), *map(request_line, found.get("catalogue", ())))
    waiting = found["files"].get("waiting")
    meanwhile = [f"{waiting} of it {REAL_CO_JUMBO}; jumbo jobs may process it meanwhile"] if waiting else []
    of_input = (f"  {one}" for one in (*meanwhile, *found.get("unused_input", ())))
    lines += ["  " + line for line in (*about, f"input: {counts(found['files'])}", *of_input)]
    lines.append(f"  jobs: {counts(found['jobs'], found.get('more_jobs', ()))}")
    if task.get("jumbo_reason"):
        lines.append(f"  jumbo jobs {task['jumbo_reason']}")
        if task["jumbo_switched_at"] is not None:
            lines.append(f"  jumbo jobs were {task['jumbo_switched']} (at {moment(task['jumbo_switched_at'])})")
    lines += [f"  {one['to_status']}, since {moment(one['at'])}: {one['reason']}" for one in found.get("orders", ())]
    lines += [f"  {passed_over_line(one)}" for one in found.get("passed_over", ())]
    generation = found.get("generation")
    if generation:
        lines += latest_line(generation, task["gshare"], held_back=bool(found.get("held_back")))
    lines += [f"  waits: {part_line(one)}" for one in found.get("waits", ())]
    lines += [f"  {stage_in_line(one)}" for one in found.get("stage_ins", ())]
    lines += [f"  {notice_line(one)}" for one in found.get("notices", ())]
    lines += generation_lines(found.get("generation_history", ()))
    for decision in found["decisions"]:
        lines += decision_lines(decision, everything=everything)
    lines += ["  " + line for line in failure_lines(found["failures"])]
    lines += ["  " + taken_back_line(one) for one in found.get("taken_back", ())]
    lines += ["  " + line for name in ("fatal_ranges", "refused_ranges") for line in found.get(name, ())]
    lines += [f"  {rule_line(one, one['n_jobs'])}" for one in found.get("retry_rules", ())]
    lines += history_lines(found["history"])
    return _text_of(lines)


def passed_over_line(one: Facts) -> str:
    """Why an action of the watchdog did not choose the task."""
    what = {"queue_filler": "not sent to an empty queue", "withheld": "not withheld"}[one["action"]]
    since = f" (at each look since {moment(one['since'])})" if one["since"] is not None else ""
    return f"{what}: {one['reason']}{since}"


def stage_in_line(one: Facts) -> str:
    """Input on tape: from where to where it is staged, how much has come, and what it waits for."""
    where = f"from {one['source_storage'] or 'a tape'} to {one['destination_storage'] or 'a disk'}"
    state = f"waits: {one['waits_for'] or 'it begins soon'}" if one["status"] == "requested" else "comes"
    return f"staged {where}: {one['dataset_name']}, {one['n_staged']} of {one['n_files']} files; {state}"


def _text_of(lines: Iterable[str]) -> str:
    """Each line stays one, whatever others wrote into it: names, errors and reasons forge none."""
    return written_out("\n".join(map(visible, lines)))


def decision_lines(decision: Facts, *, everything: bool) -> list[str]:
    """One stored decision: counts by reason, numbers, nearest miss; every queue if wanted."""
    summary, kind = decision["summary"], "nuclei" if decision["kind"] == "task" else "queues"
    of_kind = f"{decision['chunk_kind']} " if decision.get("chunk_kind") else ""
    where = f" for {of_kind}chunk {decision['chunk_id']}" if decision["chunk_id"] else ""
    lines = [
        f"  brokerage {decision['decision_id']}{where} at {moment(decision['decided_at'])} ({decision['plugin']}): "
        f"{summary.get('considered', len(decision['queues']))} {kind}, {summary.get('passed', 0)} passed"
    ]
    if decision["chosen"]:
        more = len(decision["chosen"]) - SHOWN_CHOSEN
        lines.append(
            f"    chosen: {', '.join(decision['chosen'][:SHOWN_CHOSEN])}{f' and {more} more' if more > 0 else ''}"
        )
    lines += exclusion_lines(summary)
    lines += [f"    {note}" for note in summary.get("notes", ())]
    lines += governed_lines(decision)
    waits = decision["waits_for"] if "waits_for" in decision else waits_for(decision)
    if waits:
        lines.append(f"    waits for: {waits}")
    if decision["outcome"] == "none" and decision["retry_at"]:
        lines.append(f"    tried again at {moment(decision['retry_at'])}")
    if everything:
        shown = (one for one in decision["queues"] if one.get("check") not in OF_THE_TASK)
        lines += [f"      {queue_line(one)}" for one in shown]
    return lines


def exclusion_lines(summary: Facts) -> list[str]:
    """What left queues out, and who was nearest; a throttle of the task is told once, without any queue."""
    miss, checks = summary.get("nearest_miss"), dict(summary.get("checks") or {})
    lines = []
    if miss and miss["check"] in OF_THE_TASK:
        lines.append(f"    the whole task is held by {miss['check']}: {compared(miss['found'], miss['wanted'])}")
        checks.pop(miss["check"], None)
        if checks:
            lines.append(f"    left out before: {counts(checks)}")
        return lines
    if checks:
        lines.append(f"    left out: {counts(checks)} ({counts(summary.get('tiers', {}))})")
    if miss:
        told = compared(miss["found"], miss["wanted"])
        lines.append(f"    nearest miss: {miss['name']}: {miss['check']}: {told}")
    return lines


def governed_lines(decision: Facts) -> list[str]:
    """Which runtime parameters govern the nearest miss: what an operator might change."""
    miss = decision["summary"].get("nearest_miss")
    nearest = next((one for one in decision["queues"] if miss and one["name"] == miss["name"]), None)
    names = (nearest or {}).get("parameters")
    return [f"    governed by {', '.join(names)} (orrery config list)"] if names else []


def queue_line(queue: Facts) -> str:
    """One queue of a decision; one that passed with the terms of its weight."""
    if queue.get("check") is None:
        known = ((name, value) for name, value in (queue.get("terms") or {}).items() if value is not None)
        terms = ", ".join(f"{name} {value:.4g}" for name, value in known)
        return f"{queue['name']}: passed, weight {queue.get('weight') or 0:.4g}{f' ({terms})' if terms else ''}"
    return f"{queue['name']}: {queue['check']} ({queue['tier']}): {compared(queue['found'], queue['wanted'])}"


def message_lines(messages: Sequence[Facts]) -> list[str]:
    """What a service could not do for the task, and whether it tries again."""
    return [
        f"{one['consumer']} could not handle a message about it: {one['reason']} "
        + (
            f"(put aside at {moment(one['parked_at'])}: an operator replays it)"
            if one["parked_at"]
            else f"(try {one['attempts'] + 1} at {moment(one['retry_at'])})"
        )
        for one in messages
    ]


def failure_lines(failures: Sequence[Facts]) -> list[str]:
    """Why jobs failed, and at which queues most of them.

    Where their texts differ, one of them is shown as an example.
    """
    return [
        f"{one['n_jobs']} job{'s' * (one['n_jobs'] != 1)} failed{_places(one)}: {one['error_source'] or 'unknown'} "
        f"{one['error_code'] or ''}{', for example:' * (one['n_texts'] > 1)} {one['error_dialog'] or ''}".rstrip()
        for one in failures
    ]


def _places(failure: Facts) -> str:
    """Where jobs failed, most of them first. Example: at CERN (4), BNL (2) and 3 more queues."""
    told = ", ".join(f"{one['queue']} ({one['n_jobs']})" for one in failure["queues"])
    more = failure["n_queues"] - len(failure["queues"])
    return f" at {told}" + (f" and {more} more queue{'s' * (more != 1)}" if more > 0 else "")


def notice_line(one: Facts) -> str:
    """What its owner was told by mail, or why not."""
    told = f"letter to its owner ({one['cause']} since {moment(one['since'])})"
    if one["status"] != "waiting":
        return f"{told}: {one['status']} at {moment(one['ended_at'])} {one['reason'] or ''}".rstrip()
    failed = f" after {one['reason']}" if one["reason"] else ""
    return f"{told}: sent from {moment(one['next_at'])} on{failed}"


def deadline_line(one: Facts) -> str:
    """By when a task is wanted, and when it will end."""
    wanted = f"wanted by {moment(one['due_at'])}"
    if one["looked_at"] is None:
        return f"{wanted}; when it ends is worked out soon"
    if one["earliest_at"] is None:
        return f"{wanted}; {one['told']} (at {moment(one['looked_at'])})"
    latest = "a time that nobody can say" if one["latest_at"] is None else moment(one["latest_at"])
    return (
        f"{wanted}; ends between {moment(one['earliest_at'])} and {latest}: {one['told']} (worked out at "
        f"{moment(one['looked_at'])})"
    )


def taken_back_line(one: Facts) -> str:
    """Why jobs were taken back before they ran; that costs their owner no attempt."""
    return (
        f"{one['n_jobs']} job{'s' * (one['n_jobs'] != 1)} taken back before they ran, last at "
        f"{moment(one['last_at'])}: {one['error_source']} {one['error_code']}: {one['error_dialog']}"
    )


def rule_line(ruled: Facts, n_jobs: int) -> str:
    """What a retry rule decided about failed jobs, with the reason of one of them."""
    jobs = f"{n_jobs} job{'s' * (n_jobs != 1)}"
    return f"retry rule about {jobs}{', for example' * (n_jobs != 1)}: {ruled['reason']}"


def latest_first(history: Sequence[Facts]) -> list[Facts]:
    """Transitions, the latest first.

    Those of one transaction have the same time: each begins where the one before it ended, so registered -> defined is
    told below defined -> assigning.
    """
    ordered: list[Facts] = []
    for _, together in groupby(sorted(history, key=lambda one: one["at"]), key=lambda one: one["at"]):
        left = list(together)
        while left:
            reached = ordered[-1]["to_status"] if ordered else None
            begins, ends = {one["from_status"] for one in left}, {one["to_status"] for one in left}
            follows = [one for one in left if one["from_status"] == reached]
            leads_on = [one for one in follows if one["to_status"] in begins]
            first = [one for one in left if one["from_status"] not in ends]
            one = (leads_on or follows or first or left)[0]
            left.remove(one)
            ordered.append(one)
    return ordered[::-1]


def history_lines(history: Sequence[Facts]) -> list[str]:
    """Transitions, in the order that they are given."""
    if not history:
        return []
    return ["  history:"] + [
        f"    {moment(one['at'])} {one['from_status'] or '(new)'} -> {one['to_status']} by {one['actor']}: "
        f"{one['reason']}"
        for one in history
    ]


def job_text(found: Facts, *, everything: bool = False) -> str:
    """The explanation of a job."""
    job = found["job"]
    means = job_meaning(job["status"], job.get("sub_status"))
    archived = " (archived)" if job["archived"] else ""
    lines = [
        f"job {job['job_id']} of task {job['task_id']}{archived}: {job['status']}, {means}",
        f"  at {shown_queue(job['queue'])}/{job['resource_type']}, attempt {job['attempt_number']}, priority "
        f"{job['current_priority']}, share {job['gshare']}; since {moment(job['state_change_time'])}",
    ]
    lines += ["  " + line for line in found["waits_for"]]
    if found.get("time_out"):
        lines.append(f"  {found['time_out']['text']}")
    if job["error_dialog"]:
        lines.append(f"  {job['error_source'] or 'error'} {job['error_code'] or ''}: {job['error_dialog']}")
    if found.get("retry_rule"):
        lines.append(f"  {rule_line(found['retry_rule'], 1)}")
    lines += [f"  {one}" for one in chain_lines(found.get("chain", ()))]
    for one in found["transfers"]:
        lines.append(
            f"  transfer {one['transfer_id']} ({one['direction']}) from {one['source_storage'] or 'nowhere'} to "
            f"{one['destination_storage']}: {one['status']}, {one['n_files']} files, {one['n_bytes']} bytes, "
            + (f"rule {one['rule_id']}" if one.get("rule_id") else f"due {moment(one['due_at'])}")
            + f" {one['error'] or ''}".rstrip()
        )
    for decision in found["decisions"]:
        lines += decision_lines(decision, everything=everything)
    lines += history_lines(found["history"])
    return _text_of(lines)


def chain_lines(chain: Sequence[Facts]) -> list[str]:
    """Which jobs a job follows, and which follow it. Example: follows job 7 (retry, failed at CERN)."""
    before, after = ([one for one in chain if (one["place"] > 0) is later] for later in (False, True))
    told = (("follows", before), ("followed by", after))
    return [f"{words} {', '.join(map(_relative, some))}" for words, some in told if some]


def _relative(one: Facts) -> str:
    state = f"{one['status']} at {one['queue']}" if one["status"] else "its row is gone"
    return f"job {one['job_id']} ({one['relation_type']}, {state})"


#: what is shown of a running job: field of the report -> how it is written
_SAID = {
    "node": "node {}", "job_sub_status": "{}", "n_events": "{} events", "cpu_consumption_time": "{} s of CPU",
    "max_pss": "at most {} kB of memory (PSS)", "max_rss": "at most {} kB of memory (RSS)",
}  # fmt: skip


def pilot_says(progress: Facts, reported_at: Any) -> str:
    """What the pilot of a running job said last: where it runs, how far it is, what it uses."""
    shown = [form.format(progress[name]) for name, form in _SAID.items() if progress.get(name) is not None]
    return f"its pilot said at {moment(reported_at)}: {', '.join(shown) or 'nothing but that it runs'}"


def without_a_job(rows: Sequence[Facts]) -> list[str]:
    """What pilots heard that asked at the queue and got nothing: one line for each class."""
    return [
        f"pilots got nothing there, {one['why']}: {one['n_pilots']} times, last {moment(one['last_at'])};"
        f" {one['reason']}"
        for one in rows
    ]


def job_waits_for(
    job: Facts,
    queue: Facts | None,
    position: Position | None,
    starts_per_hour: int,
) -> list[str]:
    """What must happen before this job goes on."""
    status = job["status"]
    if status == "activated":
        lines = position.lines() if position is not None else []
        if queue is None:
            return [*lines, "its queue is not in the grid any more"]
        lines.append(
            f"queue {queue['status']}: {queue['activated']} activated, {queue['running']} with pilots; last pilot "
            f"{moment(queue['last_pilot_at']) or 'never'}, {starts_per_hour} starts within the last hour"
        )
        if starts_per_hour and position is not None:
            soonest, latest = (
                max(1, round(60 * (n_before + 1) / starts_per_hour))
                for n_before in (position.at_least, position.at_most)
            )
            lines.append(f"at that rate its turn comes in about {soonest} to {latest} min")
        return lines
    return {
        "pending": ["waits for the rest of its bunch to be inserted"],
        "waiting": [f"{REAL_CO_JUMBO}, or for jumbo jobs to process all events of its job set"],
        "defined": ["waits for its input to be looked up"],
        "assigned": ["waits for its input to arrive"],
        "throttled": ["held back: its task is paused, or its user runs too much"],
        "sent": ["a pilot took it and has not reported yet"],
        "starting": [f"pilot {job['worker'] or ''} prepares; last heartbeat {moment(job['heartbeat_at'])}"],
        "running": [f"pilot {job['worker'] or ''} runs it; last heartbeat {moment(job['heartbeat_at'])}"],
        "holding": ["waits for its outputs to be registered"],
        "transferring": ["waits for its outputs to reach the nucleus"],
        "merging": ["waits for its outputs to be merged"],
    }.get(status, [])
