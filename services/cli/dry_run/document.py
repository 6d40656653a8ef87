"""A decision as one JSON document: everything that was compared, weighed and chosen."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from shared.brokerage.decision import Decision
from shared.brokerage.explained import explain_row


class _DocumentPart(BaseModel):
    model_config = ConfigDict(extra="forbid")


class RankedQueue(_DocumentPart):
    """One chosen queue or nucleus; `terms` are the factors of its weight."""

    name: str
    queue: str | None = None
    resource_type: str | None = None
    weight: float | None
    max_jobs: int | None = None
    terms: dict[str, float | None] = {}


class Exclusion(_DocumentPart):
    """Why a queue or nucleus was left out: the first check it did not pass and the numbers compared."""

    name: str
    check: str
    tier: str = Field(description="configuration, data, capacity or policy")
    temporary: bool
    found: str
    wanted: str
    parameters: list[str] = Field(
        default=[], description="runtime parameters that govern the check, COMPONENT.KEY; none: no parameter does"
    )
    lifts: list[str] = Field(default=[], description="what lifts it: the queue's statistics, a link, the grid, ...")


class DecisionDocument(_DocumentPart):
    """The outcome of one brokerage. `passed`: what went through every check, best first, chosen or not."""

    kind: str = Field(description="task or job")
    task_id: int
    chunk_id: int | None
    plugin: str
    seed: int
    world_version: int
    decided_at: datetime
    outcome: str = Field(description="chosen or none")
    chosen: list[str]
    candidates: list[RankedQueue]
    passed: list[RankedQueue]
    exclusions: list[Exclusion]
    retry_at: datetime | None
    reason: str
    summary: dict[str, Any]


def document_of(decision: Decision) -> DecisionDocument:
    """The document of a decision."""
    packed = decision.packed()
    entries = explain_row(packed)
    terms = {one["name"]: one for one in entries if one["check"] is None}
    candidates = [
        RankedQueue(
            name=name,
            queue=one.queue,
            resource_type=one.resource_type,
            weight=one.weight,
            max_jobs=one.max_jobs,
            terms=terms.get(name, {}).get("terms", {}),
        )
        for name, one in zip(decision.chosen, decision.candidates, strict=False)
    ]
    passed = [RankedQueue(name=n, weight=one["weight"], terms=one["terms"]) for n, one in terms.items()]
    return DecisionDocument(
        kind=decision.kind,
        task_id=decision.task_id,
        chunk_id=decision.chunk_id,
        plugin=decision.plugin,
        seed=decision.seed,
        world_version=decision.world_version,
        decided_at=decision.decided_at,
        outcome=decision.outcome,
        chosen=list(decision.chosen),
        candidates=candidates or [one for one in passed if one.name in decision.chosen],
        passed=passed,
        exclusions=[Exclusion(**one) for one in entries if one["check"] is not None],
        retry_at=decision.retry_at,
        reason=decision.reason(),
        summary=packed["summary"],
    )
