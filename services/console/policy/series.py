"""Numbers over time: jobs by state, from when each was made, began and ended; and the hours of a day."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from shared.states.job import FINAL

Facts = Mapping[str, Any]
#: in the order in which they are stacked
STATES = ("finished", "failed", "closed or cancelled", "with a pilot", "waiting")
STEPS = 60


@dataclass(frozen=True)
class Series:
    """`numbers[state][place]` jobs at `times[place]`; empty where there are none."""

    times: Sequence[datetime]
    numbers: Mapping[str, Sequence[int]]

    @property
    def most(self) -> int:
        """The jobs of the last moment: they are all there by then."""
        return max((sum(some) for some in zip(*self.numbers.values(), strict=True)), default=0)

    def rows(self) -> list[dict[str, Any]]:
        """The same as a table: a row for each moment that differs from the one before it."""
        found: list[dict[str, Any]] = []
        for place, at in enumerate(self.times):
            counts = {state: self.numbers[state][place] for state in STATES}
            if not found or found[-1]["jobs"] != counts:
                found.append({"at": at.isoformat(), "jobs": counts})
        return found


def series_of(jobs: Iterable[Facts], now: datetime) -> Series:
    """At 60 moments from the first job to now, or to the end of the last one."""
    lives = [life for life in map(_life, jobs) if life is not None]
    if not lives:
        return Series((), dict.fromkeys(STATES, ()))
    begin = min(made for made, _, _, _ in lives)
    is_over = all(ended is not None for _, _, ended, _ in lives)
    end = max(ended for _, _, ended, _ in lives if ended is not None) if is_over else max(now, begin)
    step = max((end - begin) / (STEPS - 1), timedelta(milliseconds=1))  # not into the future
    times = [*(begin + step * place for place in range(STEPS - 1)), max(end, begin + step * (STEPS - 1))]
    numbers = {state: [0] * STEPS for state in STATES}
    for made, began, ended, last in lives:
        for place, at in enumerate(times):
            if at >= made:
                numbers[_state(at, began, ended, last)][place] += 1
    return Series(times, numbers)


def _state(at: datetime, began: datetime | None, ended: datetime | None, last: str) -> str:
    if ended is not None and at >= ended:
        return last if last in ("finished", "failed") else "closed or cancelled"
    return "with a pilot" if began is not None and at >= began else "waiting"


def _life(job: Facts) -> tuple[datetime, datetime | None, datetime | None, str] | None:
    made = time_of(job.get("creation_time"))
    if made is None:
        return None
    status = str(job.get("status"))
    ended = time_of(job.get("end_time") or job.get("state_change_time")) if status in FINAL else None
    return made, time_of(job.get("start_time")), ended, status


HOURS = 24
HOUR = timedelta(hours=1)


def hours_of(rows: Iterable[Facts], now: datetime) -> list[dict[str, Any]]:
    """Each of the last 24 hours with its numbers; hours in which nothing began or ended have zeros."""
    known = {time_of(row["hour"]): row for row in rows}
    last = now.replace(minute=0, second=0, microsecond=0)
    names = ("n_started", "n_finished", "n_failed", "n_stopped")
    hours = [last - HOUR * (HOURS - 1 - place) for place in range(HOURS)]
    return [{"hour": at.isoformat(), **{name: (known.get(at) or {}).get(name, 0) for name in names}} for at in hours]


def time_of(value: Any) -> datetime | None:
    """A time as the API tells it; None where it tells none."""
    try:
        return None if not value else datetime.fromisoformat(str(value))
    except ValueError:
        return None
