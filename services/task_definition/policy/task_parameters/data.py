"""Parameters that say how a task takes its input."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from services.task_definition.policy.task_parameters.about import About, TaskFields
from services.task_definition.policy.task_parameters.kinds import MOST_ITEMS, PhysicalNames, Segment
from services.task_definition.policy.task_spec_items import Flag, at_most

_REFINE = "services.task_definition.policy.refine"
_RULES = "services.job_generation.policy.rules"
_TABLE = "services.task_definition.policy.task_parameters.table"


class DataFields(TaskFields):
    """How it takes its input."""

    no_input: Annotated[Flag, About("services.task_definition.policy.task_spec")] = False
    pfn_list: Annotated[PhysicalNames | None, About("services.task_definition.policy.task_spec")] = None
    segmented_work: Annotated[Flag, About("services.task_definition.policy.segments", code="SW")] = False
    segment_specs: Annotated[
        Annotated[list[Segment], at_most(MOST_ITEMS), Field(min_length=1)] | None,
        About("services.job_generation.policy.segments"),
    ] = None
    input_pre_staging: Annotated[Flag, About("services.task_brokerage.policy.request", code="IS")] = False
    wait_input: Annotated[Flag, About(_REFINE, code="WI")] = False
    no_wait_parent: Annotated[Flag, About(_REFINE, code="NW")] = False
    ignore_missing_in_ds: Annotated[Flag, About(_REFINE, code="IM", retry=True, live=True)] = False
    reuse_sec_on_demand: Annotated[Flag, About(_REFINE, code="RO")] = False
    allow_incomplete_in_ds: Annotated[
        Flag, About(kept="incomplete datasets are always taken", code="AI", live=True)
    ] = False
    run_until_closed: Annotated[Flag, About(_RULES, code="RC")] = False
    allow_empty_input: Annotated[Flag, About("services.task_definition.policy.input_read", code="AE")] = False
    use_local_io: Annotated[Flag, About(_RULES, code="LI", live=True)] = False
    force_staged: Annotated[Flag | None, About(_TABLE, retry=True, live=True)] = None
    write_input_to_file: Annotated[Flag, About("services.job_generation.policy.building", code="WF")] = False
    use_prefetcher: Annotated[Flag, About("services.job_generation.policy.job_fields", code="UT")] = False
    to_staging: Annotated[
        Flag, About(kept="whether input is staged before jobs are made is said by inputPreStaging", warned=True)
    ] = False
    allow_input_lan: Annotated[
        Literal["use", "only"] | None, About("shared.brokerage.request_of_task", code="IL", live=True)
    ] = None
