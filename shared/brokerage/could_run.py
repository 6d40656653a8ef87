"""Could any queue ever run this task? Asked before a task is accepted, with the checks of the brokerage that it gets.

What may pass by itself or by someone's daily work (a queue that is offline today) does not count against a task.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import numpy as np

from shared.brokerage.ability import ABILITY, ANALYSIS_ABILITY
from shared.brokerage.analysis_facts import AnalysisInput, AnalysisLimits, TaskFacts
from shared.brokerage.decision import Decision
from shared.brokerage.filters.scope import STATUS
from shared.brokerage.matchmaking import requirements_in
from shared.brokerage.request import JobRequest, names_in, uses_jumbo
from shared.brokerage.smallest_job import most_events, smallest_job
from shared.brokerage.software import software_of_task
from shared.brokerage.usage import OwnUsage, Usage
from shared.brokerage.world import World
from shared.model.needs import needs_of_task

EVER = ABILITY.without(STATUS.name)
EVER_ANALYSIS = ANALYSIS_ABILITY.without(STATUS.name)


def typical_job(row: Mapping[str, Any], n_files: int, n_events: int, n_bytes: int, now: datetime) -> JobRequest:
    """An ordinary job of a task (columns of table `tasks`) with so much input.

    Raises UnknownUnit, InvalidArchitecture or ValueError naming the field and what is allowed.
    """
    rules = row["split_rule"] or {}
    return JobRequest(
        task_id=0,
        now=now,
        needs=needs_of_task(row),
        vo=row["vo"] or "",
        label=row["prod_source_label"] or "",
        is_analysis=row["task_type"] == "anal",
        processing_type=row["processing_type"] or "",
        working_group=row["working_group"] or "",
        gshare=row["gshare"] or "",
        resource_type=row["resource_type"] or "",
        priority=row["current_priority"],
        uses_jumbo=uses_jumbo(row),
        dynamic_number_of_events=bool(rules.get("dynamicNumEvents")),
        most_events=most_events(rules),
        software=software_of_task(row),
        direct_access_only=rules.get("allowInputLAN") == "only",
        preassigned=names_in(row["site"]),
        included=names_in(rules.get("includedSite")),
        excluded=names_in(rules.get("excludedSite")),
        requirements=requirements_in(rules),
        copies_to_scratch=bool(rules.get("useLocalIO")),
        job=smallest_job(rules, n_files, n_events, n_bytes),
        analysis=_analysis(row) if row["task_type"] == "anal" else None,
    )


def _analysis(row: Mapping[str, Any]) -> AnalysisInput:
    """What the task itself says: nothing of what its user has running decides whether it could ever run."""
    avoids_vp = bool((row["split_rule"] or {}).get("avoidVP"))
    facts = TaskFacts(0, "", row["working_group"] or "", row["gshare"] or "", avoid_vp=avoids_vp)
    return AnalysisInput(facts, AnalysisLimits(), Usage(), OwnUsage())


def could_run(world: World, request: JobRequest) -> Decision:
    """The queues that could run it some day, and why the others never can; outcome none: nothing ever will."""
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
    )
