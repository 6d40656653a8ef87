"""Parameters about the work of a task, besides its rules.

They say what it works on, how often it is tried, and when it ends.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from services.task_definition.tasks.policy.task_parameters.kinds import (
    MOST_ITEMS,
    Fraction,
    HpoRequestData,
    JobXmlText,
    MergeSpec,
    PhysicalNames,
    Segment,
    TermCondition,
)
from services.task_definition.tasks.policy.task_parameters.names import FormFields
from shared.task.about import About
from shared.task.types import Attempts, Events, Flag, at_most

_CHOICE = "services.task_definition.tasks.policy.event_service"
_TABLE = "services.task_definition.tasks.policy.task_parameters.table"
_TASK = "services.task_definition.tasks.policy.task_spec"


class WorkFields(FormFields):
    """What it works on: files, segments, points, ranges of events; other names of rules."""

    pfn_list: Annotated[PhysicalNames | None, About("services.task_definition.tasks.policy.task_spec")] = None
    segment_specs: Annotated[
        Annotated[list[Segment], at_most(MOST_ITEMS), Field(min_length=1)] | None,
        About("services.job_generation"),
    ] = None
    force_staged: Annotated[Flag | None, About(_TABLE, retry=True, live=True)] = None
    to_staging: Annotated[
        Flag, About(kept="whether input is staged before jobs are made is said by inputPreStaging", warned=True)
    ] = False
    n_events_per_file: Annotated[Events | None, About(_TABLE, unit="events")] = None
    min_granularity: Annotated[Events | None, About(_TABLE, unit="events")] = None
    n_events_per_range: Annotated[Events | None, About(_TABLE, unit="events")] = None
    load_xml: Annotated[JobXmlText | None, About("services.task_definition.tasks.policy.job_xml")] = None
    es_convertible: Annotated[Flag, About(_CHOICE)] = False
    es_fraction: Annotated[Fraction | None, About(_CHOICE)] = None
    esmerge_spec: Annotated[MergeSpec | None, About("services.task_definition.tasks.policy.outputs")] = None
    hpo_request_data: Annotated[HpoRequestData | None, About("services.task_definition.tasks.policy.points")] = None
    goal: Annotated[
        Annotated[float, Field(ge=0, le=10**6, strict=True, allow_inf_nan=False)] | None,
        About("services.task_definition.tasks.policy.final_status", unit="%"),
    ] = None
    term_condition: Annotated[TermCondition | None, About("services.watchdog.store.sweeps")] = None
    max_attempt: Annotated[Attempts | None, About(_TASK, unit="attempts")] = None
    max_failure: Annotated[Attempts | None, About(_TASK, unit="attempts")] = None
