"""Parameters that say how a task takes its input."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from services.task_definition.policy.task_parameters.about import About, TaskFields
from services.task_definition.policy.task_parameters.kinds import MOST_ITEMS, PhysicalNames, Segment
from services.task_definition.policy.task_spec_items import Flag, at_most

_REFINE = "services.task_definition.policy.refine"
_RULES = "services.job_generation.policy.rules"


class DataFields(TaskFields):
    """How it takes its input."""

    no_input: Annotated[Flag, About("services.task_definition.policy.task_spec")] = False
    pfn_list: Annotated[PhysicalNames | None, About("services.task_definition.policy.task_spec")] = None
    segmented_work: Annotated[Flag, About("services.task_definition.policy.segments", code="SW")] = False
    segment_specs: Annotated[
        Annotated[list[Segment], at_most(MOST_ITEMS), Field(min_length=1)] | None,
        About("services.job_generation.policy.segments"),
    ] = None
    input_pre_staging: Annotated[Flag, About("services.task_brokerage.policy.request")] = False
    wait_input: Annotated[Flag, About(_REFINE)] = False
    no_wait_parent: Annotated[Flag, About(_REFINE)] = False
    ignore_missing_in_ds: Annotated[Flag, About(_REFINE, retry=True, live=True)] = False
    reuse_sec_on_demand: Annotated[Flag, About(_REFINE)] = False
    allow_incomplete_in_ds: Annotated[Flag, About(kept="incomplete datasets are always taken", live=True)] = False
    run_until_closed: Annotated[Flag, About(_RULES)] = False
    allow_empty_input: Annotated[Flag, About("services.task_definition.policy.input_read")] = False
    use_local_io: Annotated[Flag, About(_RULES, live=True)] = False
    allow_input_lan: Annotated[Literal["use", "only"] | None, About("shared.brokerage.request_of_task", live=True)] = (
        None
    )
