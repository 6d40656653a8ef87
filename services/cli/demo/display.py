"""The demonstration on the screen: a live picture in a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType
from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from services.cli.demo.observation import Observation, QueueLoad
from services.cli.output import cell, console, duration
from services.cli.progress import TaskCounts
from shared.model.visible_text import visible
from shared.states.job import JobStatus

QUEUES_SHOWN = 8
QUEUES_IN_LINE = 4
PLAIN_EVERY_S = 5.0
_WAITING: tuple[JobStatus, ...] = ("pending", "waiting", "defined", "assigned", "throttled")
_ON_NODE: tuple[JobStatus, ...] = ("sent", "starting", "running")
_LEAVING: tuple[JobStatus, ...] = ("holding", "transferring", "merging")
_STAGES = (_WAITING, ("activated",), _ON_NODE, _LEAVING)
_LOST: tuple[JobStatus, ...] = ("failed", "closed", "cancelled")


class Display(Protocol):
    """What the program needs of a screen."""

    def say(self, text: str) -> None: ...

    def show(self, observation: Observation) -> None: ...

    def __enter__(self) -> Display: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def make_display(*, live: bool | None = None) -> Display:
    """Live in a terminal."""
    shown = console()
    return LiveDisplay(shown) if (shown.is_terminal if live is None else live) else PlainDisplay(shown)


class PlainDisplay:
    """Prints a line for what happens.

    Tasks and the busiest queues are printed every few seconds, and when a task changes its status.
    """

    def __init__(self, shown: Console) -> None:
        self._console = shown
        self._next_at = 0.0
        self._statuses: tuple[str, ...] = ()

    def __enter__(self) -> Display:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def say(self, text: str) -> None:
        self._console.print(visible(text))

    def show(self, observation: Observation) -> None:
        statuses = tuple(task.status for task in observation.tasks)
        if time.monotonic() < self._next_at and statuses == self._statuses:
            return
        self._next_at, self._statuses = time.monotonic() + PLAIN_EVERY_S, statuses
        self.say(f"[{observation.at_s:.0f} s] {headline(observation)}")
        for task in observation.tasks:
            left = observation.left_s.get(task.task_id)
            rate = observation.files_per_s.get(task.task_id, 0.0)
            ahead = f"; {rate:.1f} files/s, about {duration(left)} left" if left else ""
            self.say(f"  {task.line()}{ahead}")
        if line := queue_line(observation.queues):
            self.say(f"  {line}")


class LiveDisplay:
    """A picture that is drawn over itself; what is said scrolls above it."""

    def __init__(self, shown: Console) -> None:
        self._console = shown
        self._live: Live | None = None

    def __enter__(self) -> Display:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def say(self, text: str) -> None:
        self._console.print(visible(text))

    def show(self, observation: Observation) -> None:
        if self._live is None:
            self._live = Live(console=self._console, auto_refresh=False)
            self._live.start()
        self._live.update(picture(observation), refresh=True)


def headline(observation: Observation) -> str:
    """Rates and totals in one line."""
    text = (
        f"{observation.fraction_done:.0%} of the files done; "
        f"{observation.jobs_ended} jobs ended, {observation.jobs_per_s:.0f} jobs/s; "
        f"{observation.events_total:.0f} events, {observation.events_per_s:.0f} events/s"
    )
    return text + (f"; not answering: {observation.unanswered}" if observation.unanswered else "")


def picture(observation: Observation) -> Group:
    """The headline, the tasks, the busiest queues."""
    return Group(
        Text(headline(observation), style="bold"),
        task_table(observation.tasks, observation),
        queue_table(observation.queues),
    )


def task_table(tasks: Sequence[TaskCounts], observation: Observation) -> Table:
    """Per task: files and jobs by state, time left."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("task")
    table.add_column("name", no_wrap=True, max_width=34)
    table.add_column("status")
    table.add_column("files", width=16)
    for heading in (
        "done",
        "failed",
        "of",
        "waiting",
        "ready",
        "running",
        "leaving",
        "ended well",
        "lost",
        "files/s",
        "left",
    ):
        table.add_column(heading, justify="right")
    for task in tasks:
        jobs = task.jobs
        left, rate = observation.left_s.get(task.task_id), observation.files_per_s.get(task.task_id)
        table.add_row(
            str(task.task_id),
            cell(task.name),
            cell(task.status),
            ProgressBar(total=max(task.files_total, 1), completed=task.files_finished, width=16),
            *(str(number) for number in (task.files_finished, task.files_failed, task.files_total)),
            *(
                str(sum(jobs.get(state, 0) for state in states))
                for states in (_WAITING, ("activated",), _ON_NODE, _LEAVING)
            ),
            str(jobs.get("finished", 0)),
            str(sum(jobs.get(state, 0) for state in _LOST)),
            f"{rate:.1f}" if rate else "",
            duration(left) if left else "",
        )
    return table


def busiest(queues: Sequence[QueueLoad]) -> list[tuple[str, list[int]]]:
    """The queues with most live jobs: waiting, ready, on a node, leaving."""
    counted = [
        (load.queue, [sum(load.jobs.get(state, 0) for state in states) for states in _STAGES]) for load in queues
    ]
    counted.sort(key=lambda one: (-sum(one[1]), one[0]))
    return [one for one in counted[:QUEUES_SHOWN] if any(one[1])]


def queue_line(queues: Sequence[QueueLoad]) -> str:
    """The busiest queues in one line; empty where none has a live job."""
    shown = [
        f"{queue} {ready} ready, {running} running"
        for queue, (_, ready, running, _) in busiest(queues)[:QUEUES_IN_LINE]
    ]
    return f"busiest queues: {'; '.join(shown)}" if shown else ""


def queue_table(queues: Sequence[QueueLoad]) -> Table:
    """The busiest queues."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("queue", "waiting", "ready", "running", "leaving"):
        table.add_column(heading, justify="left" if heading == "queue" else "right")
    for queue, counts in busiest(queues):
        table.add_row(cell(queue), *map(str, counts))
    return table
