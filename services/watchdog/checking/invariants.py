"""The list of checks, read from the store's SQL; a query's name begins with the invariant it guards."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from shared.db.queries import Queries

DIRECTORY = Path(__file__).parents[1] / "store" / "invariants"

#: What each invariant promises (Limits, faults and invariants).
INVARIANTS: dict[str, str] = {
    "I1": "no file or event range is processed successfully by more than one attempt; one live attempt owns it",
    "I2": "no file is lost: each is in one state, and picked or running implies a live owner",
    "I3": "counters equal contents at every commit",
    "I4": "final states of jobs never change; others are re-opened only by a recorded command",
    "I5": "only transitions of the published graphs occur, each with actor, reason and time",
    "I6": "a report changes the attempt that it reports, while its pilot has the job",
    "I7": "a job goes to at most one pilot",
    "I8": "each event range is merged once, and merged ranges are those that were processed",
    "I9": "attempts stay within their limits; only failures of the payload count as failed attempts",
    "I10": "each committed change has its event, published in the end and applied once per consumer",
    "I11": "output names, serial numbers and random seeds are unique in a task",
    "I12": "shares add up, and what is tried again counts once",
    "I13": "Redis and RabbitMQ decide nothing: PostgreSQL alone knows what comes next",
    "I14": "contents and catalogue agree on every finished output, and on the input that jobs may take",
    "I15": "a task is final only if no input is open",
    "I16": "every finished job's outputs are those its text named",
}

#: Too heavy, or about time rather than about a commit: left out when only some tasks are checked after a step.
_NOT_AFTER_A_STEP = frozenset({"i10_end_never_counted", "i10_end_never_settled", "i16_output_not_in_the_text"})


@dataclass(frozen=True)
class InvariantCheck:
    """One query. `by_task`: it takes the ids of the tasks to look at.

    `at_every_commit`: it holds after each step.
    """

    name: str
    invariant: str
    title: str
    sql: str
    by_task: bool
    at_every_commit: bool


def load(directory: Path = DIRECTORY) -> tuple[InvariantCheck, ...]:
    """Read the checks of a directory, by invariant and name.

    Raises ValueError for a query whose name says no invariant.
    """
    checks: list[InvariantCheck] = []
    for path in sorted(directory.glob("*.sql")):
        found = Queries(path)
        checks += [_check(name, found, path) for name in found.names()]
    return tuple(sorted(checks, key=lambda check: (int(check.invariant[1:]), check.name)))


def _check(name: str, found: Queries, path: Path) -> InvariantCheck:
    match = re.match(r"i(\d+)_", name)
    invariant = f"I{match[1]}" if match else ""
    if invariant not in INVARIANTS:
        raise ValueError(f"{path.name}: query {name!r} must begin with one of {', '.join(INVARIANTS).lower()} and '_'")
    sql = found.text(name)
    by_task = "$1" in sql
    return InvariantCheck(
        name=name,
        invariant=invariant,
        title=found.purpose(name),
        sql=sql,
        by_task=by_task,
        at_every_commit=by_task and name not in _NOT_AFTER_A_STEP,
    )


CHECKS: tuple[InvariantCheck, ...] = load()
