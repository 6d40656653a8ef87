"""Which workers a report is about: a number names a worker of one VO. Pure.

No VO takes the numbers of another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from shared.auth.named import is_named

#: what a pilot (started, finished) or a factory says about a batch job: no state of a job
WorkerState = Literal["submitted", "started", "running", "finished"]


@dataclass(frozen=True)
class WorkerStatus:
    """What a pilot states about the batch job it runs in, or a factory (`of_factory`) about one of its.

    `subject`: whose token it came with; `is_trusted`: one with the role production or operator. `vos`: for whom the
    caller acts, None for every VO. `may_begin`: whether its caller may say that the queue has a worker more, which a
    pilot in it may.
    """

    harvester_id: str
    worker_id: int
    queue: str
    status: WorkerState
    subject: str
    is_trusted: bool = False
    of_factory: bool = False
    n_cores: int = 1
    vos: frozenset[str] | None = None
    may_begin: bool = True

    @property
    def vo(self) -> str:
        """The VO that the worker is of when it is reported first; "" where the caller acts for several or all."""
        return next(iter(self.vos)) if self.vos is not None and len(self.vos) == 1 else ""

    @property
    def number(self) -> tuple[str, int]:
        """What names the worker within its VO."""
        return self.harvester_id, self.worker_id


class KnownWorker(NamedTuple):
    """A worker as it was reported.

    `subject`: the pilot that began it, None: none has. `vo` "": of several.
    """

    vo: str
    queue: str
    subject: str | None
    status: WorkerState


class RowToWrite(NamedTuple):
    """The worker of a report: its VO and whose it is; `is_released`: it was of several VOs until now."""

    vo: str
    subject: str | None
    is_released: bool = False


def rows_to_write(one: WorkerStatus, known: Sequence[KnownWorker], named: Any) -> list[RowToWrite]:
    """Give the workers that a report is about and that its caller may report; none: it is refused.

    A worker is of the VO for which its first reporter acts: who acts for others has a worker of the number of its own,
    and takes none. One that a factory of several VOs submitted is of the VO whose pilot begins it. A worker belongs to
    the pilot that reported it first; until then, to none. Others report it if the configuration names them for its
    queue, or with the role production or operator; factories are such. How many workers a queue has decides how many
    jobs of all its VOs go there: a factory that brings one acts for all of these.
    """
    theirs = [row for row in known if _is_reached(one, row, named)]
    if not one.of_factory:  # a pilot is in one worker
        theirs = sorted(theirs, key=lambda row: (row.subject != one.subject, row.subject is not None, not row.vo))[:1]
    found = [_judged(one, row, named) for row in theirs or (None,)]
    return [row for row in found if row is not None]


def _is_reached(one: WorkerStatus, row: KnownWorker, named: Any) -> bool:
    """Whether the caller may mean this worker by its number."""
    if one.vos is None or row.vo in one.vos or is_named(named, row.queue, one.subject):
        return True
    return row.vo == "" and (row.subject in (None, one.subject) or (one.of_factory and one.may_begin))


def _judged(one: WorkerStatus, row: KnownWorker | None, named: Any) -> RowToWrite | None:
    owner = row.subject if row is not None else None
    if not one.of_factory and owner in (None, one.subject):
        is_released = row is not None and not row.vo and owner is None and row.status != "finished" and bool(one.vo)
        return RowToWrite(one.vo if row is None or is_released else row.vo, one.subject, is_released)
    queue = one.queue if row is None or owner is None else row.queue
    brings = row is None or not row.vo or row.queue != one.queue
    if (one.is_trusted and (one.may_begin or not brings)) or is_named(named, queue, one.subject):
        return RowToWrite(one.vo if row is None else row.vo, owner)
    return None
