"""Decides whether any queue could ever run a task, before it is accepted.

It asks the checks of the brokerage that the task gets.

What may pass by itself or by someone's daily work (a queue that is offline today) does not count against a task.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

import numpy as np

from shared.brokerage.ability import ABILITY, ANALYSIS_ABILITY
from shared.brokerage.analysis_facts import AnalysisInput, TaskFacts
from shared.brokerage.decision import Decision
from shared.brokerage.filters.scope import STATUS
from shared.brokerage.limits import AnalysisLimits
from shared.brokerage.request import JobRequest
from shared.brokerage.request_of_task import request_of_task
from shared.brokerage.smallest_job import SmallestJob, smallest_job
from shared.brokerage.usage import OwnUsage, Usage
from shared.brokerage.world import World
from shared.task.in_effect import SplitRules, rules_of
from shared.task.needs import needs_of_task

EVER = ABILITY.without(STATUS.name)
EVER_ANALYSIS = ANALYSIS_ABILITY.without(STATUS.name)


def typical_job(row: Mapping[str, Any], n_files: int, n_events: int, n_bytes: int, now: datetime) -> JobRequest:
    """An ordinary job of a task (columns of table `tasks`) with so much input.

    What only scouts ask refuses no task.

    Raises UnknownUnit, InvalidArchitecture or ValueError naming the field and what is allowed.
    """
    task = request_of_task(row, needs_of_task(row), now)
    return replace(
        task,
        # Nobody has looked at the boundaries of the input yet.
        job=_least_job(rules_of(row["split_rule"]), n_files, n_events, n_bytes),
        # Analysis is asked other checks, and what its user has running decides nothing for good.
        analysis=_analysis(task, row) if task.is_analysis else None,
    )


def _least_job(rules: SplitRules, n_files: int, n_events: int, input_bytes: int) -> SmallestJob:
    """As `smallest_job`, before anybody has looked at the boundaries of the input.

    Where a boundary is one job it may be one file, however many the rules ask for; units without a boundary are split
    by the rules.

    Example: of files of 100 events each, a job with nFilesPerJob 5 has 5; with groupBoundaryID 3 too it may have 1.
    """
    by_rules = smallest_job(rules, n_files, n_events, input_bytes)
    if not rules.keeps_boundaries_whole:
        return by_rules
    of_file = smallest_job(rules_of(None), n_files, n_events, input_bytes)
    return SmallestJob(
        min(by_rules.n_files, of_file.n_files),
        min(by_rules.n_events, of_file.n_events),
        min(by_rules.input_bytes, of_file.input_bytes),
    )


def _analysis(task: JobRequest, row: Mapping[str, Any]) -> AnalysisInput:
    """What the task itself says: nothing of what its user has running."""
    avoids_vp = rules_of(row["split_rule"]).avoid_vp
    facts = TaskFacts(0, "", task.working_group, task.gshare, avoid_vp=avoids_vp)
    return AnalysisInput(facts, AnalysisLimits(), Usage(), OwnUsage())


def could_run(world: World, request: JobRequest) -> Decision:
    """The queues that could run it some day, and why the others never can; outcome none: no queue can."""
    pipeline = EVER_ANALYSIS if request.is_analysis else EVER
    exclusions = pipeline.run(world, request, persistent_only=True)
    labels = world.columns.labels
    return Decision(
        kind="job",
        task_id=request.task_id,
        plugin="ability",
        seed=0,
        world_version=world.version,
        decided_at=request.now,
        names=labels,
        codes=exclusions.codes,
        found=exclusions.found,
        wanted=exclusions.wanted,
        weights=np.zeros(len(labels)),
        checks=exclusions.checks,
        chosen=tuple(label for label, alive in zip(labels, exclusions.alive, strict=True) if alive),
        queue_index=world.columns.queue_index,
    )
