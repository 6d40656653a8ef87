"""Parameters that say how a task is cut into jobs, how often they are tried, and when it ends."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from services.task_definition.policy.task_parameters.about import About, TaskFields
from services.task_definition.policy.task_parameters.kinds import (
    Attempts,
    Events,
    FieldNumbers,
    Files,
    Gigabytes,
    Identifiers,
    JobXmlText,
    Megabytes,
    TermCondition,
)
from services.task_definition.policy.task_spec_items import Flag

_RULES = "services.job_generation.policy.rules"
_REFINE = "services.task_definition.policy.refine"
_WISHES = "services.task_definition.policy.input_wishes"
_END = "services.task_definition.policy.final_status"
_TABLE = "services.task_definition.policy.task_parameters.table"
_TASK = "services.task_definition.policy.task_spec"


class SplittingFields(TaskFields):
    """How its input becomes jobs, and unmerged output merge jobs."""

    n_files: Annotated[Files | None, About(_REFINE, unit="files", retry=True)] = None
    n_events: Annotated[Events | None, About(_REFINE, unit="events", retry=True)] = None
    n_files_per_job: Annotated[Files | None, About(_RULES, unit="files", code="NF", retry=True, live=True)] = None
    n_events_per_job: Annotated[Events | None, About(_RULES, unit="events", code="NE")] = None
    tgt_num_events_per_job: Annotated[Events | None, About(_RULES, unit="events")] = None
    n_events_per_input_file: Annotated[Events | None, About(_RULES, unit="events", code="EI")] = None
    n_events_per_file: Annotated[Events | None, About(_RULES, unit="events")] = None
    n_gb_per_job: Annotated[Gigabytes | None, About(_RULES, unit="GB", code="NG", retry=True, live=True)] = None
    n_max_files_per_job: Annotated[Files | None, About(_RULES, unit="files", code="MF", live=True)] = None
    max_events_per_job: Annotated[Events | None, About(_RULES, unit="events", code="MX")] = None
    min_granularity: Annotated[Events | None, About(_TABLE, unit="events")] = None
    n_events_per_range: Annotated[Events | None, About(_TABLE, unit="events")] = None
    max_walltime: Annotated[
        Annotated[int, Field(ge=1, le=10_000, strict=True)] | None, About(_RULES, unit="h", code="MW")
    ] = None
    tgt_max_output_for_ng: Annotated[Gigabytes | None, About(_RULES, unit="GB", code="TN")] = None
    skip_files_used_by: Annotated[Identifiers | None, About(_WISHES)] = None
    use_real_num_events: Annotated[Flag, About(_REFINE, code="UE")] = False
    respect_lb: Annotated[Flag, About(_RULES, code="RL")] = False
    order_by_lb: Annotated[Flag, About(_WISHES, code="OL")] = False
    release_per_lb: Annotated[Flag, About(_RULES, code="RP")] = False
    order_input_by: Annotated[Literal["eventsAlignment"] | None, About(_WISHES, code="OI")] = None
    skip_short_input: Annotated[Flag, About(_WISHES)] = False
    skip_short_output: Annotated[Flag, About(_RULES)] = False
    n_chunks_to_wait: Annotated[Files | None, About(_RULES, unit="jobs", code="NT")] = None
    no_input_pooling: Annotated[Flag, About(_RULES, code="NI", live=True)] = False
    add_nth_field_to_lfn: Annotated[FieldNumbers | None, About(_RULES, code="AN")] = None
    use_file_as_source_lfn: Annotated[Flag, About(_RULES, code="UF")] = False
    group_boundary_id: Annotated[Annotated[int, Field(ge=1, le=4, strict=True)] | None, About(_RULES, code="GB")] = None
    load_xml: Annotated[JobXmlText | None, About("services.job_generation.policy.job_xml")] = None
    n_files_per_merge_job: Annotated[Files | None, About(_RULES, unit="files", code="ZF")] = None
    n_max_files_per_merge_job: Annotated[Files | None, About(_RULES, unit="files", code="ZM")] = None
    n_gb_per_merge_job: Annotated[Gigabytes | None, About(_RULES, unit="GB", code="ZG")] = None
    n_events_per_merge_job: Annotated[Events | None, About(_RULES, unit="events", code="ZE")] = None
    on_site_merging: Annotated[Flag, About(_RULES, code="OM")] = False


class AttemptFields(TaskFields):
    """How often it is tried, and when it is good enough."""

    goal: Annotated[
        Annotated[float, Field(ge=0, le=10**6, strict=True, allow_inf_nan=False)] | None, About(_END, unit="%")
    ] = None
    term_condition: Annotated[TermCondition | None, About("services.watchdog.store.sweeps")] = None
    fail_when_goal_unreached: Annotated[Flag, About(_END, code="FG")] = False
    use_exhausted: Annotated[Flag, About(_END, code="UX")] = False
    disable_auto_finish: Annotated[Flag, About("services.watchdog.store.sweeps", code="DF")] = False
    max_attempt: Annotated[Attempts | None, About(_TASK, unit="attempts")] = None
    max_failure: Annotated[Attempts | None, About(_TASK, unit="attempts")] = None
    disable_auto_retry: Annotated[Flag, About(_TASK, code="DR")] = False
    min_cpu_efficiency: Annotated[
        Annotated[int, Field(ge=1, le=100, strict=True)] | None, About(_RULES, unit="%", code="MC")
    ] = None
    retry_ram_offset: Annotated[Megabytes | None, About(_RULES, unit="MB", code="RX")] = None
    retry_ram_step: Annotated[Megabytes | None, About(_RULES, unit="MB", code="RY")] = None
    retry_ram_max: Annotated[Megabytes | None, About(_RULES, unit="MB", code="RZ")] = None
    skip_scout: Annotated[Flag, About(_RULES)] = False
    scout_success_rate: Annotated[
        Annotated[int, Field(ge=0, le=10, strict=True)] | None, About(_RULES, unit="tenths", code="SS")
    ] = None
    respect_split_rule: Annotated[Flag, About(_RULES, code="RR")] = False
    no_throttle: Annotated[Flag, About(_TASK)] = False
    no_auto_pause: Annotated[Flag, About("services.watchdog.pausing", code="NP", live=True)] = False
