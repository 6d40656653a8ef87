"""Which types of jobs (`jobs.job_type`) belong together."""

from __future__ import annotations

from typing import Literal

JobType = Literal["scout", "normal", "merge", "build", "preprocess", "jumbo"]
#: they process the task's input; what they write is merged where the task says so
PROCESSING: tuple[JobType, ...] = ("scout", "normal")
#: merge jobs have a priority of their own, jumbo jobs that of a moment
FOLLOWING_PRIORITY: tuple[JobType, ...] = (*PROCESSING, "build", "preprocess")
