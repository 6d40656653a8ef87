"""One look at everything: tasks, queues, events.

What cannot be asked at the moment keeps its last value.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from services.cli.client import Client
from services.cli.commands.options import rows_of
from services.cli.failures import CommandFailure
from services.cli.progress import TaskCounts, task_progress
from shared.states.job import JobStatus

_COUNTER = re.compile(r"^orrery_outbox_published_total(?:\{[^}]*\})?\s+([0-9.eE+]+)", re.MULTILINE)
METRICS_TIMEOUT_S = 2.0
JOBS_ENDED: tuple[JobStatus, ...] = ("finished", "failed", "closed", "cancelled")


@dataclass(frozen=True)
class QueueLoad:
    """Jobs by state at one queue."""

    queue: str
    jobs: Mapping[str, int]


@dataclass(frozen=True)
class Observation:
    """What was seen at one moment; `at_s` is the time since the first look."""

    at_s: float
    tasks: Sequence[TaskCounts]
    queues: Sequence[QueueLoad] = ()
    events_total: float = 0.0
    events_per_s: float = 0.0
    jobs_per_s: float = 0.0
    files_per_s: Mapping[int, float] = field(default_factory=dict)
    left_s: Mapping[int, float] = field(default_factory=dict)
    unanswered: str = ""

    @property
    def fraction_done(self) -> float:
        """Of the files of all tasks."""
        total = sum(task.files_total for task in self.tasks)
        done = sum(task.files_finished + task.files_failed for task in self.tasks)
        return done / total if total else 0.0

    @property
    def jobs_ended(self) -> int:
        return sum(task.jobs.get(state, 0) for task in self.tasks for state in JOBS_ENDED)


class Observer:
    """Looks again and again, and knows the rates between two looks."""

    def __init__(self, client: Client, task_ids: Sequence[int]) -> None:
        self._client = client
        self._task_ids = list(task_ids)
        self._started = time.monotonic()
        self._history: list[Observation] = []
        self._published: dict[str, float] = {}
        self._http = httpx.Client(timeout=METRICS_TIMEOUT_S, trust_env=False)

    def look(self) -> Observation:
        """One observation; a service that does not answer is named in it, and its numbers are the last ones."""
        last = self._history[-1] if self._history else None
        unanswered = []
        tasks, queues = (last.tasks, last.queues) if last else ((), ())
        try:
            tasks = tuple(task_progress(self._client, task_id) for task_id in self._task_ids)
        except CommandFailure as failure:
            unanswered.append(failure.message)
        try:
            queues = tuple(_loads(self._client.get("job_brokerage", "grid/queues")))
        except CommandFailure as failure:
            unanswered.append(failure.message)
        now = Observation(
            at_s=time.monotonic() - self._started,
            tasks=tasks,
            queues=queues,
            events_total=self._events(),
            unanswered="; ".join(unanswered),
        )
        self._history.append(now)
        return self._with_rates(now)

    def close(self) -> None:
        """Give connections back."""
        self._http.close()

    def _with_rates(self, now: Observation) -> Observation:
        before = next((one for one in self._history if now.at_s - one.at_s <= 10.0), now)
        self._history = [one for one in self._history if now.at_s - one.at_s <= 15.0]
        span_s = max(now.at_s - before.at_s, 1e-6)
        earlier = {task.task_id: task for task in before.tasks}
        rates, left = {}, {}
        for task in now.tasks:
            then = earlier.get(task.task_id)
            rate = (task.files_finished - then.files_finished) / span_s if then and before is not now else 0.0
            missing = task.files_total - task.files_finished - task.files_failed
            rates[task.task_id] = rate
            if rate > 0:
                left[task.task_id] = missing / rate
        moving = before is not now
        return Observation(
            at_s=now.at_s,
            tasks=now.tasks,
            queues=now.queues,
            events_total=now.events_total,
            events_per_s=max(0.0, now.events_total - before.events_total) / span_s if moving else 0.0,
            jobs_per_s=(now.jobs_ended - before.jobs_ended) / span_s if moving else 0.0,
            files_per_s=rates,
            left_s=left,
            unanswered=now.unanswered,
        )

    def _events(self) -> float:
        """Events published by all copies of all services; a copy that was started again counts on from where it was."""
        urls = {url for copies in self._client.addresses.urls.values() for url in copies}
        for url in sorted(urls):
            try:
                text = self._http.get(f"{url}/metrics").text
            except httpx.HTTPError:
                continue
            value = sum(float(found) for found in _COUNTER.findall(text))
            self._published[url] = max(value, self._published.get(url, 0.0))
        return sum(self._published.values())


def _loads(data: Any) -> list[QueueLoad]:
    loads = []
    for row in rows_of(data, "queues"):
        jobs = row.get("jobs") or row.get("n_jobs")
        if isinstance(jobs, Mapping) and any(jobs.values()):
            loads.append(QueueLoad(str(row.get("queue", row.get("name"))), {str(k): int(v) for k, v in jobs.items()}))
    return loads
