"""What the recovery of lost files concerns, in values and in words (JEDI: Lost file recovery)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class KnownFile:
    """A file of a task: an output with the job that wrote it, or a unit of input (`job_id` 0)."""

    file_id: int
    dataset_id: int
    dataset_name: str
    lfn: str
    type: str
    n_events: int
    job_id: int = 0


@dataclass(frozen=True)
class RecoveryPlan:
    """`lost`: as named; `outputs`: all that the jobs wrote that made them; `inputs`: what those read."""

    lost: tuple[KnownFile, ...]
    outputs: tuple[KnownFile, ...]
    inputs: tuple[KnownFile, ...]
    lost_inputs: tuple[KnownFile, ...]
    n_jobs: int

    @property
    def besides(self) -> tuple[str, ...]:
        """Files that are not lost, but are made again with those that are."""
        lost = {one.file_id for one in self.lost}
        return tuple(one.lfn for one in self.outputs if one.file_id not in lost and one.type == "output")


def said(task_id: int, plan: RecoveryPlan, parents: Mapping[int, Sequence[str]]) -> str:
    """One sentence for people.

    Example: "task 7: 2 lost files are made again, from 4 units of input of 2 jobs; of the same jobs also a.root".
    """
    n_lost, n_inputs = len(plan.lost), len(plan.inputs)
    text = f"task {task_id}: {n_lost} lost file{'s' * (n_lost != 1)} made again, from {n_inputs} unit"
    text += f"{'s' * (n_inputs != 1)} of input of {plan.n_jobs} job{'s' * (plan.n_jobs != 1)}"
    if plan.besides:
        more = len(plan.besides) - 5
        text += f"; of the same jobs also {', '.join(plan.besides[:5])}" + (f" and {more} more" if more > 0 else "")
    for parent_id, names in sorted(parents.items()):
        text += f"; its input {', '.join(names[:5])} is lost too: task {parent_id} makes it first"
    return text
