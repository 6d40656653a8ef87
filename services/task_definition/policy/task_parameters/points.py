"""Parameters of hyper-parameter optimisation: jobs evaluate points of a search (PanDA client, phpo)."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from services.task_definition.policy.task_parameters.about import About, TaskFields
from services.task_definition.policy.task_spec_items import Flag, LongText, Text256, at_most

_RULES = "services.job_generation.policy.rules"
_CHOICE = "services.task_definition.policy.points"
MOST_POINTS = 100_000
MOST_JOBS = 1_000_000

Points = Annotated[int, Field(ge=1, le=MOST_POINTS, strict=True)]
Unevaluated = Annotated[int, Field(ge=0, le=MOST_POINTS, strict=True)]
SearchJobs = Annotated[int, Field(ge=1, le=MOST_JOBS, strict=True)]


class HpoRequestData(BaseModel):
    """What is asked of the optimiser (iDDS, HyperParameterOptimization).

    The numbers decide when points follow; the rest is kept for the optimiser and shown.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    max_points: Points
    num_points_per_generation: Points | None = None
    min_unevaluated_points: Unevaluated | None = None
    initial_points: Annotated[list[Any], at_most(MOST_POINTS)] | None = None
    opt_space: dict[str, Any] | Annotated[list[Any], at_most(1000)] | None = None
    method: Text256 | None = None
    sandbox: Text256 | None = None
    executable: Text256 | None = None
    arguments: LongText | None = None
    output_json: Text256 | None = None
    workdir: Text256 | None = None


class PointFields(TaskFields):
    """How many points are evaluated by how many jobs, and who proposes them."""

    hpo_workflow: Annotated[Flag, About(_RULES, code="HO")] = False
    hpo_request_data: Annotated[HpoRequestData | None, About(_CHOICE)] = None
    max_num_jobs: Annotated[SearchJobs | None, About(_RULES, unit="jobs", code="MN")] = None
    tot_num_jobs: Annotated[Points | None, About(_RULES, unit="points", code="TJ")] = None
