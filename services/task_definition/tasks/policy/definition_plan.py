"""What refining a task gives: the rows that define it, or why it waits or is given up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from services.task_definition.tasks.policy.outputs import OutputsPlan
from shared.catalogue.port import DatasetFacts
from shared.model.dataset_types import PFN_STREAM
from shared.states.task import TaskStatus
from shared.task.in_effect import SplitRules, rules_of


@dataclass(frozen=True)
class InputDatasetPlan:
    """One input dataset: its row, and how its files become units.

    `skip_files`: so many of the files that the task would take are not read, the first ones (offset).
    `boundaries`: of each of `names`, where these come in an order of their own. `made_by`: the task whose
    finished output alone is taken.
    """

    name: str
    stream: str
    is_master: bool
    container: str | None
    state: str
    attributes: dict[str, Any]
    events_per_unit: int | None = None
    events_per_file: int | None = None
    units_per_file: int = 1
    names: tuple[str, ...] | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    boundaries: tuple[int, ...] | None = None
    files_per_master_file: float | None = None
    token: str | None = None
    scope: str | None = None
    made_by: int | None = None
    skip_files: int = 0


@dataclass(frozen=True)
class PseudoPlan:
    """Input of a task that reads no dataset: one row for each job; the last may have fewer events.

    `offset`: what the numbers of rows are raised by. `names`: files by physical name and their events, which take the
    place of numbered rows.
    """

    n_rows: int
    events_per_row: int | None
    n_events: int | None
    names: tuple[tuple[str, int | None], ...] = ()
    offset: int = 0

    @property
    def stream(self) -> str:
        """The placeholder of its rows."""
        return PFN_STREAM if self.names else "SEQNUMBER"


@dataclass(frozen=True)
class Refined:
    """Everything that is inserted; `next_status` is assigning (needs a nucleus) or ready.

    `seed_offset`, `sequence_offset`: what ${RNDMSEED}, and beside input ${SEQNUMBER}, is above the number of a job;
    None where the task has no such number.
    """

    split_rule: dict[str, Any]
    inputs: tuple[InputDatasetPlan, ...]
    pseudo: PseudoPlan | None
    outputs: OutputsPlan
    command_lines: dict[str, Any]
    next_status: TaskStatus
    first_event: int = 1
    seed_offset: int | None = None
    sequence_offset: int | None = None
    max_files: int | None = None
    max_events: int | None = None

    @cached_property
    def rules(self) -> SplitRules:
        """The rules that are in effect."""
        return rules_of(self.split_rule)

    @property
    def units_per_job(self) -> int | None:
        """Units of the master that a job has; None where other rules than a number decide."""
        if any(one.events_per_unit for one in self.inputs):
            return None if self.rules.n_events_per_job is None else 1
        return self.rules.n_files_per_job


@dataclass(frozen=True)
class Postponed:
    """Something temporary is in the way: the task waits in pending."""

    reason: str


@dataclass(frozen=True)
class DefinitionRefused:
    """The definition cannot work: the task goes tobroken and broken."""

    reason: str


@dataclass(frozen=True)
class DefinitionFacts:
    """What refining looks at: datasets by name, the parent's status (None: no parent)."""

    datasets: Mapping[str, DatasetFacts] = field(default_factory=dict)
    parent_status: TaskStatus | None = None


Outcome = Refined | Postponed | DefinitionRefused


def usual_wait_s(priority: int) -> float:
    """How long a task waits before its input is looked at again: an hour, or less if it is urgent.

    Source: JEDI, task parameters (waitForPending).

    Example: 3600 s for priority 899, 1800 s for 900, 600 s for 950.
    """
    if priority < 900:
        return 3600.0
    return 1800.0 if priority < 950 else 600.0
