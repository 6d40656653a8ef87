"""What the demonstration has to show, and how much of it was seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table

MEMORY_ACTIONS = ("increase_memory", "increase_memory_xtimes")


@dataclass(frozen=True)
class Sight:
    """One thing that was to be seen, with its figure; 0: it was not seen."""

    name: str
    figure: int
    what: str

    @property
    def problem(self) -> str:
        """Why this is not as it should be; empty if it is."""
        return "" if self.figure > 0 else f"{self.name} was not seen: no {self.what}"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def sights_of(tasks: Sequence[Mapping[str, Any]]) -> list[Sight]:
    """What was seen of each kind of work, from the details of all tasks with their kinds (include_kinds).

    Merge jobs of event service count as its own: merging is that of outputs.
    """
    with_ranges = [task for task in tasks if task.get("event_ranges")]
    others = [task for task in tasks if not task.get("event_ranges")]
    opened = [task for task in tasks if _finished(task, "scout") and _finished(task, "normal")]
    return [
        Sight("scouts", _sum(tasks, "scout"), "scout jobs that finished and were measured"),
        Sight("avalanche", len(opened), "tasks whose other input was opened after their scouts"),
        Sight("memory increase", _raised(tasks), "jobs that ran out of memory, whose input got more"),
        Sight("merging", _sum(others, "merge"), "merge jobs of outputs that finished"),
        Sight("pre-processing", _sum(tasks, "preprocess"), "jobs that found out how their task is to be defined"),
        Sight("build", _sum(tasks, "build"), "build jobs that finished"),
        Sight("event service", _ranges(with_ranges, "event_ranges"), "ranges of events processed and merged"),
        Sight("jumbo job", _by_jumbo(with_ranges), "ranges of events that jumbo jobs processed, and were merged"),
    ]


def sights_table(sights: Sequence[Sight]) -> Table:
    """One row for each."""
    table = Table(title="what was seen", title_justify="left", box=None, pad_edge=False, header_style="bold")
    table.add_column("of")
    table.add_column("figure", justify="right")
    table.add_column("what")
    for one in sights:
        table.add_row(one.name, str(one.figure), one.what)
    return table


def _finished(task: Mapping[str, Any], job_type: str) -> int:
    return int(task.get("job_types", {}).get(job_type, {}).get("finished", 0))


def _sum(tasks: Sequence[Mapping[str, Any]], job_type: str) -> int:
    return sum(_finished(task, job_type) for task in tasks)


def _raised(tasks: Sequence[Mapping[str, Any]]) -> int:
    return sum(int(task.get("retry_actions", {}).get(action, 0)) for task in tasks for action in MEMORY_ACTIONS)


def _ranges(tasks: Sequence[Mapping[str, Any]], field: str) -> int:
    return sum(int(task.get(field, {}).get("merged", 0)) for task in tasks)


def _by_jumbo(tasks: Sequence[Mapping[str, Any]]) -> int:
    """Of tasks that had a jumbo job."""
    return _ranges([task for task in tasks if task.get("job_types", {}).get("jumbo")], "event_ranges_of_jumbo_jobs")
