"""The rules of retention: which rows go at which age, in which order, and which never. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from shared.config.parameter import Parameter

COMPONENT, APP = "maintenance", "orrery"
#: from this part of a configured size on an operator is told
NEARLY_FULL = 0.9
#: days that rows needed by a rule by days stay longer: it drops whole days, and late where somebody reads them
AFTER_WHOLE_DAYS = 2
BYTES_OF_GB = 2**30


class Order(StrEnum):
    """By what the rows of a rule are found, the oldest first."""

    DAYS = "partitions by day"
    TIMES = "rows by their time"
    JOBS = "jobs by the day on which they were archived"
    TASKS = "tasks by the time of their end"
    WHOLE_TASKS = "tasks by the time of their end, archived first; their files follow"
    WALK = "all rows, once in so many days"


@dataclass(frozen=True)
class Rule:
    """One rule: `tables` lose rows when they are `days` old, found by `order`.

    The statement of its name drops some of them. `keeps` says what is not dropped all the same, `then` what is so
    afterwards, `puts_off` names statements that find tasks whose rows wait for another day. `as_long_as`: rules that
    need these rows for as long as they keep their own.
    """

    name: str
    tables: tuple[str, ...]
    order: Order
    days: Parameter[int]
    most_gb: Parameter[int]
    least_days: int
    keeps: str
    puts_off: tuple[str, ...] = ()
    as_long_as: tuple[str, ...] = ()
    then: str = ""


def _days(name: str, default: int, least_days: int, needs: str, then: str) -> Parameter[int]:
    """Declare how long rows are kept: for ever, or at least as long as the system needs them."""

    def refuse_less(value: Any) -> None:
        """Refuse fewer days than the system needs. Raises ValueError with the reason and what is allowed."""
        if 0 < value < least_days:
            raise ValueError(f"{value} days are too short: {needs}; allowed: 0 (for ever), {least_days} days and more")

    means = f"for which rows of {name} are kept, at least {least_days}; 0: for ever" + (
        f"; then {then}" if then else ""
    )
    return Parameter(COMPONENT, f"{name.upper()}_KEEP_DAYS", default, "days", means, check=refuse_less, app=APP)


def _rule(
    name: str,
    order: Order,
    days: int,
    least_days: int,
    needs: str,
    *,
    keeps: str = "nothing",
    more_tables: tuple[str, ...] = (),
    puts_off: tuple[str, ...] = (),
    as_long_as: tuple[str, ...] = (),
    then: str = "",
) -> Rule:
    """Declare a rule and its two parameters; its name is that of its first table."""
    means = f"that {name} may have with its indexes; from 90 % on an operator is told; 0: any size"
    most_gb = Parameter(COMPONENT, f"{name.upper()}_MOST_GB", 0, "GB", means, app=APP)
    age = _days(name, days, least_days, needs, then)
    return Rule(name, (name, *more_tables), order, age, most_gb, least_days, keeps, puts_off, as_long_as, then)


_WITH_JOBS = ("tasks_with_jobs",)
_RETRIES = "a task that has just ended may be tried again, and is explained by them"
_RECOVERY = "lost files are made again from what jobs read and reported"

#: in the order in which they are looked at
RULES: tuple[Rule, ...] = (
    _rule("inbox", Order.DAYS, 7, 2, "a message that comes a second time, hours later, is known by it"),
    _rule(
        "transition_log", Order.DAYS, 90, 30, "the checks follow each live job, up to 21 days old, through it",
    ),
    _rule(
        "jobs_archive", Order.DAYS, 365, 30, "tasks that run for weeks count their jobs there",
        keeps="days that have jobs of a task that has not ended",
        as_long_as=("job_specs", "transfers", "job_reports", "job_files"),
    ),
    _rule("job_specs", Order.JOBS, 7, 1, "the text of a job that has just ended explains it"),
    _rule("transfers", Order.JOBS, 30, 7, "input may be on its way for days after its job was closed",
          keeps="those that have not ended", puts_off=("tasks_with_moving_files",)),
    _rule("job_reports", Order.JOBS, 180, 7, _RECOVERY, keeps="those of tasks that have not ended",
          puts_off=("live_tasks",)),
    _rule("job_files", Order.JOBS, 180, 7, _RECOVERY, keeps="those of tasks that have not ended",
          puts_off=("live_tasks",)),
    _rule("chunks", Order.TASKS, 30, 2, _RETRIES, keeps="that a task had scouts", puts_off=_WITH_JOBS),
    _rule("job_retry_history", Order.TASKS, 30, 2, _RETRIES, puts_off=_WITH_JOBS),
    _rule("generation_history", Order.TASKS, 30, 2, _RETRIES, puts_off=_WITH_JOBS),
    _rule(
        "event_ranges_past", Order.TASKS, 30, 2, _RETRIES,
        keeps="ranges whose file in an object store waits for its deletion",
        puts_off=(*_WITH_JOBS, "tasks_with_used_up_files"),
    ),
    _rule(
        "event_range_files", Order.TASKS, 30, 2, _RETRIES, keeps="files that a range still names",
        puts_off=(*_WITH_JOBS, "tasks_with_used_up_files", "tasks_with_past_ranges"),
    ),
    _rule("refused_range_reports", Order.TASKS, 30, 2, _RETRIES, puts_off=_WITH_JOBS),
    _rule("job_sets", Order.TASKS, 180, 2, _RETRIES, keeps="searches of points",
          more_tables=("job_set_jobs", "stored_copies"), puts_off=_WITH_JOBS),
    _rule("jumbo_jobs", Order.TASKS, 180, 2, _RETRIES, puts_off=_WITH_JOBS),
    _rule("task_usage", Order.TASKS, 180, 2, "limits of retries are compared with it", puts_off=_WITH_JOBS),
    _rule("task_job_counts", Order.TASKS, 180, 2, "limits of retries are compared with them", puts_off=_WITH_JOBS),
    _rule(
        "tasks", Order.WHOLE_TASKS, 365, 30, "people try a task again, and compare others with it, weeks after its end",
        keeps="tasks with a child, whose output a task reads that has not ended, or whose input one leaves out; what"
              " other rules keep",
        more_tables=("task_datasets", "task_files", "task_parameters", "job_parameters_templates", "output_templates",
                     "builds", "raised_memory", "passed_over", "generation_decisions", "event_ranges", "hpo_searches",
                     "hpo_points", "archive_days_of_tasks"),
        puts_off=(*_WITH_JOBS, "tasks_with_rows", "tasks_under_way", "tasks_with_children", "tasks_read_by_others",
                  "tasks_skipped_by_others", "tasks_with_used_up_files"),
        as_long_as=("transition_log", "jobs_archive", "chunks", "job_retry_history", "generation_history",
                    "event_ranges_past", "event_range_files", "refused_range_reports", "job_sets", "jumbo_jobs",
                    "task_usage", "task_job_counts"),
    ),
    _rule("tasks_archive", Order.TIMES, 3650, 30, "nothing else says what a task was",
          keeps="tasks whose files are still being archived", more_tables=("task_files_archive",),
          then="other tasks may write datasets of the names that these tasks wrote"),
    _rule("audit_log", Order.TIMES, 365, 30, "it says who did what, and the checks ask it who opened a task again",
          as_long_as=("transition_log",)),
    _rule("parked_messages", Order.TIMES, 30, 1, "one sees whether a message that was sent again helped",
          keeps="messages that were not sent again"),
    _rule("queue_statistics", Order.WALK, 1, 1, "every row is read to find those without jobs",
          keeps="what has jobs"),
)  # fmt: skip
BY_NAME = {rule.name: rule for rule in RULES}
#: what may be set, as `orrery config` lists it
KEPT_DAYS = tuple(rule.days for rule in RULES)
MOST_GB = tuple(rule.most_gb for rule in RULES)

Read = Callable[[Parameter[int]], int]


@dataclass(frozen=True)
class Kept:
    """How long a rule keeps rows, None for ever, and which other rule needs them so long."""

    days: int | None
    for_rule: str = ""


def kept(rule: Rule, read: Read) -> Kept:
    """Decide how long rows are kept: as set, but as long as the system and the rules that need them ask.

    Example: the audit log is set to 60 days and the log of transitions, of which whole days go, to 90: the audit log is
    kept for 92 days.
    """
    value = read(rule.days)
    longest = Kept(max(value, rule.least_days) if value else None)
    for name in rule.as_long_as:
        other = kept(BY_NAME[name], read).days
        if other is not None and rule.order is not Order.DAYS and BY_NAME[name].order is Order.DAYS:
            other += AFTER_WHOLE_DAYS
        if longest.days is not None and (other is None or other > longest.days):
            longest = Kept(other, name)
    return longest


def is_nearly_full(n_bytes: int, most_gb: int) -> bool:
    """Tell whether a rule has nine tenths of the size that it may have."""
    return most_gb > 0 and n_bytes >= NEARLY_FULL * most_gb * BYTES_OF_GB
