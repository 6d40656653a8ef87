"""The final status of a task and of its datasets (JEDI: Post-processor), and its progress in numbers."""

from __future__ import annotations

from dataclasses import dataclass

from shared.states.dataset import DatasetStatus
from shared.states.task import TaskStatus

WHOLE_GOAL_PERMILLE = 1000
CORRUPTED: tuple[TaskStatus, ...] = ("failed", "broken", "aborted")


@dataclass(frozen=True)
class TaskEnd:
    """What decides how a task ends; counts are sums over the master inputs.

    `completeness_permille`: of events where known, else of files: 950 if 95 of 100 files are finished, 960 if these
    files have 960 of all 1000 events. `goal` in per mille (None: 1000); `parent_status` None: no parent; `input_open`:
    a master dataset may still get files; `has_only_preprocessing`: its input is what its pre-processing job works on;
    `is_search`: it searches hyper-parameters, and its one unit is finished when a point was evaluated.
    """

    status: TaskStatus
    n_files: int
    n_files_finished: int
    completeness_permille: float
    goal: int | None = None
    parent_status: TaskStatus | None = None
    input_open: bool = False
    demands_input: bool = False
    fail_when_goal_unreached: bool = False
    use_exhausted: bool = False
    has_only_preprocessing: bool = False
    is_search: bool = False


@dataclass(frozen=True)
class FinalStatus:
    """The status, and why in one sentence."""

    status: TaskStatus
    reason: str


def final_status(end: TaskEnd) -> FinalStatus:
    """The first rule that fits decides; then the goal.

    Why a goal: some results are of use only if nearly all input is in them. Example: 95 of 100 files are finished with
    a goal of 950 per mille; with a goal of 960 the task is exhausted, or failed, or finished, as it asks. A search of
    hyper-parameters is finished when any point was evaluated. Source: JEDI, Post-processor.
    """
    fixed: dict[TaskStatus, TaskStatus] = {"tobroken": "broken", "toabort": "aborted", "paused": "paused"}
    if end.status in fixed:
        return FinalStatus(fixed[end.status], f"was {end.status}")
    if end.has_only_preprocessing:
        done = end.n_files_finished > 0
        return FinalStatus("failed", "it ended before its work began" if done else "its pre-processing did not succeed")
    if end.n_files == 0 and end.demands_input:
        return FinalStatus("failed", "there is no input")
    if end.is_search and end.n_files_finished > 0:
        return FinalStatus("finished", "points of its search were evaluated")
    found = _by_files(end)
    if found.status != "finished" or end.completeness_permille >= (end.goal or WHOLE_GOAL_PERMILLE):
        return found
    short = f"{end.completeness_permille / 10:.1f} % of a goal of {(end.goal or WHOLE_GOAL_PERMILLE) / 10:g} %"
    if end.use_exhausted and end.status != "passed":
        return FinalStatus("exhausted", f"{found.reason}; {short}: needs a decision by its owner")
    if end.fail_when_goal_unreached:
        return FinalStatus("failed", f"{found.reason}; {short}, and the task asks to fail then")
    return found


def _by_files(end: TaskEnd) -> FinalStatus:
    if end.n_files_finished >= end.n_files:
        if parent_is_corrupted(end.parent_status):
            return FinalStatus("failed", f"its parent is {end.parent_status}")
        if end.parent_status is not None and end.parent_status != "done":
            return FinalStatus("finished", f"all input processed, but its parent is {end.parent_status}")
        if end.input_open:
            return FinalStatus("finished", "all input processed, but an input dataset is still open")
        return FinalStatus("done", f"all {end.n_files} units of input processed")
    if end.n_files_finished == 0:
        return FinalStatus("failed", f"none of {end.n_files} units of input processed")
    return FinalStatus("finished", f"{end.n_files_finished} of {end.n_files} units of input processed")


def input_dataset_status(n_files: int, n_finished: int, *, is_master: bool) -> DatasetStatus:
    """Master: done (all), finished (part), failed (none); secondaries are done with the task."""
    if not is_master or n_finished >= n_files:
        return "done"
    return "finished" if n_finished else "failed"


def output_dataset_status(task_status: TaskStatus, n_files: int, n_finished: int) -> DatasetStatus:
    """Done, finished where files are missing, failed with a task that failed, broke or was aborted."""
    if parent_is_corrupted(task_status):
        return "failed"
    return "finished" if n_files > n_finished else "done"


def parent_is_corrupted(status: TaskStatus | None) -> bool:
    """Whether the children of a task in this state are killed."""
    return status in CORRUPTED
