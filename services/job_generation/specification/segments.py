"""Segments of a task's input: jobs read files of one segment each, and are told which (segmentSpecs).

Source: PanDA client, phpo: segmented work.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from services.job_generation.policy.values import JobInput, Task


def segment_of(task: Task, job: JobInput) -> Mapping[str, Any] | None:
    """The segment that a job reads; None without segments.

    Its number from 1 on is the boundary of its files.
    """
    segments = task.parameters.get("segmentSpecs")
    boundary = job.master[0].boundary_id if job.master else None
    if not isinstance(segments, list) or boundary is None or not 1 <= boundary <= len(segments):
        return None
    found: Mapping[str, Any] = segments[boundary - 1]
    return found


def texts_of_segment(task: Task, job: JobInput) -> dict[str, str]:
    """What ${SEGMENT_NAME}, ${SEGMENT_ID} and, in names of outputs, ${MIDDLENAME} stand for.

    Segments without an id count from 0 on.
    """
    segment = segment_of(task, job)
    if segment is None:
        return {}
    number = segment.get("id")
    name = str(segment["name"])
    shown = (job.master[0].boundary_id or 1) - 1 if number is None else number
    return {"SEGMENT_NAME": name, "SEGMENT_ID": str(shown), "MIDDLENAME": name}
