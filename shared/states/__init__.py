"""State machines of task, dataset, file, event range and job: states, transitions, triggers, owners.

`orrery migrate` writes the arrows into the database (table ``allowed_transitions``), which refuses all others.
"""

from typing import Any

from shared.states.dataset import DATASET, DatasetStatus
from shared.states.event_range import EVENT_RANGE, EventRangeStatus
from shared.states.file import FILE, FileStatus
from shared.states.graph import Graph, IllegalTransition, Owner, Transition
from shared.states.job import JOB, JobStatus
from shared.states.task import TASK, TaskStatus

GRAPHS: tuple[Graph[Any], ...] = (TASK, DATASET, FILE, EVENT_RANGE, JOB)

__all__ = [
    "DATASET",
    "EVENT_RANGE",
    "FILE",
    "GRAPHS",
    "JOB",
    "TASK",
    "DatasetStatus",
    "EventRangeStatus",
    "FileStatus",
    "Graph",
    "IllegalTransition",
    "JobStatus",
    "Owner",
    "TaskStatus",
    "Transition",
]
