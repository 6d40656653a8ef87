"""The fields of a task's JSON: the field's names, types, lengths of the schema, sensible ranges.

A field that changes how a task runs and that this version does not carry out is refused by name (`UNSUPPORTED`) and
never silently ignored.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from services.task_definition.policy.task_spec_items import (
    MOST_LOGS,
    Flag,
    Item,
    LongText,
    NameList,
    Text16,
    Text32,
    Text64,
    Text128,
    Text256,
    at_most,
    without_empty,
)
from shared.model.queue import Connectivity
from shared.model.whole_numbers import LARGEST_ID

MOST_ITEMS = 1000
#: why these are refused
UNSUPPORTED = {
    "buildSpec": "build jobs are not supported by this version",
    "preproSpec": "pre-processing jobs are not supported by this version",
    "loadXML": "splitting described by XML is not supported by this version",
    "segmentSpecs": "segmented work is not supported by this version",
    "hpoWorkflow": "hyper-parameter optimisation is not supported by this version",
    "hpoRequestData": "hyper-parameter optimisation is not supported by this version",
    "useJobCloning": "job cloning is not supported by this version",
    "nEventsPerWorker": "the event service is not supported by this version",
    "segmentedWork": "segmented work is not supported by this version",
    "maxNumJobs": "hyper-parameter optimisation is not supported by this version",
    "totNumJobs": "hyper-parameter optimisation is not supported by this version",
    "addNthFieldToLFN": "output names made of input names are not supported by this version",
    "useFileAsSourceLFN": "output names made of input names are not supported by this version",
    "pfnList": "input by physical file names is not supported by this version",
    "nJumboJobs": "jumbo jobs are not supported by this version",
}


def _known_connectivity(stated: str) -> str:
    """`network_connectivity#ip_stack`, either part may be left out."""
    network, _, stack = stated.partition("#")
    if network not in ("", *Connectivity) or stack not in ("", "IPv4", "IPv6"):
        raise ValueError(f"allowed: {', '.join(Connectivity)}, followed by #IPv4 or #IPv6 if only that stack will do")
    return stated


_ALIASES = {
    "task_name": "taskName", "user_name": "userName", "prod_source_label": "prodSourceLabel",
    "req_id": "reqID", "ticket_id": "ticketID", "n_gb_per_job": "nGBPerJob", "n_gb_per_merge_job": "nGBPerMergeJob",
    "container_name": "container_name", "respect_lb": "respectLB", "order_by_lb": "orderByLB",
    "release_per_lb": "releasePerLB", "tgt_max_output_for_ng": "tgtMaxOutputForNG", "avoid_vp": "avoidVP",
    "t1_weight": "t1Weight", "source_url": "sourceURL", "use_local_io": "useLocalIO",
    "allow_input_lan": "allowInputLAN", "allow_input_wan": "allowInputWAN",
    "group_boundary_id": "groupBoundaryID", "ignore_missing_in_ds": "ignoreMissingInDS",
    "allow_incomplete_in_ds": "allowIncompleteInDS", "os_info": "osInfo", "only_tags_for_fc": "onlyTagsForFC",
    "um_name_at_end": "umNameAtEnd", "log_merge": "log_merge", "parent_task_id": "parent_tid",
    "ds_for_in": "dsForIN",
}  # fmt: skip


def alias_of(name: str) -> str:
    """``n_files_per_job`` -> ``nFilesPerJob``."""
    if name in _ALIASES:
        return _ALIASES[name]
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _as_text(value: Any) -> Any:
    return str(value) if type(value) is int else value


def _as_list(value: Any) -> Any:
    return [value] if type(value) is int else value


Text20 = Annotated[str, Field(min_length=1, max_length=20, strict=True)]
Files = Annotated[int, Field(ge=1, le=10**9, strict=True)]
Events = Annotated[int, Field(ge=1, le=10**12, strict=True)]
Gigabytes = Annotated[int, Field(ge=1, le=10**6, strict=True)]
Cores = Annotated[int, Field(ge=0, le=1024, strict=True)]
Memory = Annotated[int, Field(ge=0, le=10**7, strict=True)]
Amount = Annotated[int, Field(ge=0, le=10**12, strict=True)]
Percent = Annotated[int, Field(ge=0, le=1000, strict=True)]
Attempts = Annotated[int, Field(ge=1, le=100, strict=True)]
Priority = Annotated[int, Field(ge=-10_000, le=100_000, strict=True)]
Identifier = Annotated[int, Field(ge=0, le=LARGEST_ID, strict=True)]


class MergeSpec(BaseModel):
    """How merge jobs are run."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    trans_path: Text128 | None = Field(None, alias="transPath")
    job_parameters: LongText | None = Field(None, alias="jobParameters")
    use_local_io: Flag = Field(False, alias="useLocalIO")


class Step(BaseModel):
    """A program that runs before, beside or after the payload.

    ${TRF} and ${TRF_ARGS} stand for the payload's own program and arguments.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    command: LongText
    args: LongText = ""


class MultiStepExec(BaseModel):
    """The steps of a payload, and how its container is started."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    preprocess: Step | None = None
    coprocess: Step | None = None
    postprocess: Step | None = None
    container_options: dict[Text64, LongText] | None = Field(None, alias="containerOptions", max_length=20)


class TaskParameters(BaseModel):
    """The JSON of a task, checked field by field; what holds between fields is checked in `task_spec`."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=alias_of, hide_input_in_errors=False)

    task_name: Annotated[str, Field(min_length=1, max_length=132, strict=True)]
    user_name: Text128 | None = None
    vo: Annotated[str, Field(min_length=1, max_length=16, strict=True)]
    prod_source_label: Annotated[str, Field(min_length=1, max_length=20, strict=True)]
    task_type: Literal["prod", "anal"]
    unique_task_name: Flag = False
    task_priority: Priority | None = None
    current_priority: Priority | None = None
    architecture: Annotated[str, Field(max_length=256)] | dict[str, Any] | None = None
    trans_uses: Text64 | None = None
    trans_home: Text128 | None = None
    trans_path: Text128 | None = None
    processing_type: Text64 | None = None
    job_parameters: Annotated[list[Item], Field(min_length=1, max_length=MOST_ITEMS)]
    log: Annotated[Item | list[Item] | None, at_most(MOST_LOGS)] = None
    log_merge: Item | None = None
    working_group: Text32 | None = None
    country_group: Text20 | None = None
    campaign: Text32 | None = None
    request_type: Text32 | None = None
    req_id: Identifier | None = None
    ticket_id: Annotated[str, BeforeValidator(_as_text), Field(max_length=50)] | None = None
    ticket_system_type: Text16 | None = None
    parent_task_id: Identifier | None = None
    # where
    cloud: Annotated[str, Field(max_length=10, strict=True)] | None = None
    site: LongText | None = None
    nucleus: Annotated[str, Field(max_length=52, strict=True)] | None = None
    included_site: NameList | None = None
    excluded_site: NameList | None = None
    sam_stations: NameList | None = None
    requirements: LongText | None = None
    ip_connectivity: Annotated[str, AfterValidator(_known_connectivity)] | None = None
    ip_stack: Literal["IPv4", "IPv6", ""] | None = None
    t1_weight: Annotated[int, Field(ge=-1, le=10_000, strict=True)] | None = None
    avoid_vp: Flag = False
    disable_reassign: Flag = False
    full_chain: Literal["only", "require", "capable"] | None = None
    os_matching: Flag = False
    only_tags_for_fc: Flag = False
    alt_stage_out: Text32 | None = None
    task_broker_on_master: Flag = False
    # what a job needs
    core_count: Cores | None = None
    merge_core_count: Cores | None = None
    max_core_count: Annotated[int, Field(ge=1, le=1024, strict=True)] | None = None
    ram_count: Memory | None = None
    ram_unit: Text32 | None = None
    ram_count_unit: Text32 | None = None
    base_ram_count: Memory | None = None
    merge_ram_count: Memory | None = None
    retry_ram_offset: Memory | None = None
    retry_ram_step: Memory | None = None
    retry_ram_max: Memory | None = None
    cpu_time: Annotated[float, Field(ge=0, le=10**12, strict=True, allow_inf_nan=False)] | None = None
    cpu_time_unit: Text32 | None = None
    cpu_efficiency: Percent | None = None
    min_cpu_efficiency: Percent | None = None
    base_walltime: Amount | None = None
    walltime: Annotated[int, Field(ge=-(10**9), le=10**9, strict=True)] | None = None
    walltime_unit: Text32 | None = None
    out_disk_count: Amount | None = None
    out_disk_unit: Text32 | None = None
    work_disk_count: Amount | None = None
    work_disk_unit: Text32 | None = None
    io_intensity: Amount | None = None
    io_intensity_unit: Text32 | None = None
    disk_io: Amount | None = Field(None, alias="diskIO")
    disk_io_unit: Text32 | None = Field(None, alias="diskIOUnit")
    container_name: Text256 | None = None
    os_info: Text256 | None = None
    framework: Text64 | None = None
    # when it is good enough, and how often to try
    goal: Annotated[float, Field(ge=0, le=10**6, strict=True, allow_inf_nan=False)] | None = None
    fail_when_goal_unreached: Flag = False
    use_exhausted: Flag = False
    disable_auto_finish: Flag = False
    max_attempt: Attempts | None = None
    max_failure: Attempts | None = None
    disable_auto_retry: Flag = False
    skip_scout: Flag = False
    scout_success_rate: Annotated[int, Field(ge=0, le=10, strict=True)] | None = None
    respect_split_rule: Flag = False
    no_throttle: Flag = False
    no_auto_pause: Flag = False
    gshare: Text64 | None = None
    work_queue_name: Text32 | None = None
    # splitting
    n_files: Files | None = None
    n_events: Events | None = None
    n_files_per_job: Files | None = None
    n_events_per_job: Events | None = None
    tgt_num_events_per_job: Events | None = None
    n_events_per_input_file: Events | None = None
    n_events_per_file: Events | None = None
    n_gb_per_job: Gigabytes | None = None
    n_max_files_per_job: Files | None = None
    max_events_per_job: Events | None = None
    min_granularity: Events | None = None
    n_events_per_range: Events | None = None
    max_walltime: Annotated[int, Field(ge=1, le=10_000, strict=True)] | None = None
    tgt_max_output_for_ng: Gigabytes | None = None
    skip_files_used_by: Annotated[list[Identifier], BeforeValidator(_as_list)] | None = None
    skip_short_input: Flag = False
    use_real_num_events: Flag = False
    order_input_by: Literal["eventsAlignment", "none"] | None = None
    no_input_pooling: Flag = False
    respect_lb: Flag = False
    group_boundary_id: Annotated[int, Field(ge=1, le=4, strict=True)] | None = None
    order_by_lb: Flag = False
    release_per_lb: Flag = False
    # merging
    merge_output: Flag = False
    merge_spec: MergeSpec | None = None
    um_name_at_end: Flag = False
    n_gb_per_merge_job: Gigabytes | None = None
    n_files_per_merge_job: Files | None = None
    n_max_files_per_merge_job: Files | None = None
    n_events_per_merge_job: Events | None = None
    on_site_merging: Flag = False
    # data
    no_input: Flag = False
    input_pre_staging: Flag = False
    wait_input: Flag = False
    no_wait_parent: Flag = False
    ignore_missing_in_ds: Flag = False
    run_until_closed: Flag = False
    allow_empty_input: Flag = False
    allow_incomplete_in_ds: Flag = False
    use_local_io: Flag = False
    allow_input_lan: Literal["use", "only"] | None = None
    allow_input_wan: Flag = False
    # carried along
    cli_params: Annotated[str, Field(max_length=100_000, strict=True)] | None = None
    source_url: LongText | None = None
    fixed_sandbox: LongText | None = None
    destination: Annotated[str, Field(max_length=60, strict=True)] | None = None
    official: Flag = False
    debug_mode: Flag = False
    no_looping_check: Flag = False
    message_driven: Flag = False
    push_status_changes: Flag = False
    use_secrets: Flag = False
    multi_step_exec: MultiStepExec | None = None
    no_exec_str_cnv: Flag = False
    enc_job_params: Flag = False
    ttcr_timestamp: Text32 | None = None
    no_email: Flag = False
    transfer_type: Text32 | None = None
    ds_for_in: LongText | None = None
    reuse_sec_on_demand: Flag = False
    get_num_events_in_metadata: Flag = False

    @model_validator(mode="before")
    @classmethod
    def _leave_out_empty(cls, value: Any) -> Any:
        return without_empty(value)

    def logs(self) -> list[Item]:
        """The log items, as a list."""
        return self.log if isinstance(self.log, list) else [] if self.log is None else [self.log]

    def granularity(self) -> int | None:
        """Events per range for jobs of a dynamic number of events: minGranularity, nEventsPerRange."""
        return self.min_granularity or self.n_events_per_range

    def events_per_file(self) -> int | None:
        """nEventsPerInputFile or its other name."""
        return self.n_events_per_input_file or self.n_events_per_file


def known_fields() -> frozenset[str]:
    """Every field name as written in the JSON."""
    return frozenset(field.alias or name for name, field in TaskParameters.model_fields.items())
