"""Parameters that say what a task is: names, owner, payload, command line, priority and share."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from services.task_definition.tasks.policy.task_parameters.kinds import (
    MOST_ITEMS,
    BuildSpec,
    Cloud,
    MergeSpec,
    MultiStepExec,
    PreproSpec,
    Priority,
    Text20,
    Ticket,
    WantedBy,
)
from services.task_definition.tasks.policy.task_parameters.names import FormFields
from services.task_definition.tasks.policy.task_spec_items import MOST_LOGS, Item, Text16, Text64, Text128, Text256
from shared.task.about import About
from shared.task.types import Flag, Identifier, LongText, Text32, at_most

_COMMANDS = "services.task_definition.tasks.policy.commands"
_SUBMISSION = "services.task_definition.tasks.submitting.submission"
_JOB_FIELDS = "services.job_generation"
_OUTPUTS = "services.task_definition.tasks.policy.outputs"
_SHARES = "services.task_definition.tasks.policy.shares"
_REFINE = "services.task_definition.tasks.policy.refine"
_KEPT = "kept with the task for people and their tools; nothing is decided by it"
_TICKET = "kept with the task: no ticket is opened, read or followed"


class WhatFields(FormFields):
    """What the task is."""

    task_name: Annotated[
        Annotated[str, Field(min_length=1, max_length=132, strict=True)],
        About("services.task_definition.tasks.policy.task_spec_checks"),
    ]
    user_name: Annotated[Text128 | None, About(_SUBMISSION)] = None
    vo: Annotated[
        Annotated[str, Field(min_length=1, max_length=16, strict=True)],
        About("services.task_definition.tasks.defining.definition"),
    ]
    prod_source_label: Annotated[
        Annotated[str, Field(min_length=1, max_length=20, strict=True)],
        About("services.task_definition.tasks.policy.shares"),
    ]
    task_type: Annotated[Literal["prod", "anal"], About("services.task_definition.tasks.policy.task_spec")]
    unique_task_name: Annotated[Flag, About(_SUBMISSION)] = False
    allow_task_duplication: Annotated[Flag, About("services.task_definition.tasks.policy.task_spec")] = False
    ttcr_timestamp: Annotated[WantedBy | None, About(_SUBMISSION)] = None
    task_priority: Annotated[Priority | None, About("services.task_definition.tasks.policy.task_spec")] = None
    current_priority: Annotated[Priority | None, About("services.task_definition.tasks.policy.task_spec")] = None
    gshare: Annotated[Text64 | None, About(_SHARES)] = None
    work_queue_name: Annotated[Text32 | None, About("services.task_definition.desk.policy.work_queues")] = None
    working_group: Annotated[Text32 | None, About(_SHARES)] = None
    campaign: Annotated[Text32 | None, About(_SHARES)] = None
    processing_type: Annotated[Text64 | None, About(_SHARES)] = None
    country_group: Annotated[Text20 | None, About(kept=_KEPT)] = None
    request_type: Annotated[Text32 | None, About(kept=_KEPT)] = None
    req_id: Annotated[Identifier | None, About("services.job_generation")] = None
    ticket_id: Annotated[Ticket | None, About(kept=_TICKET)] = None
    ticket_system_type: Annotated[Text16 | None, About(kept=_TICKET)] = None
    parent_task_id: Annotated[Identifier | None, About(_REFINE)] = None
    # where it may run
    cloud: Annotated[Cloud | None, About(_COMMANDS, retry=True)] = None
    site: Annotated[LongText | None, About(_COMMANDS, retry=True)] = None
    nucleus: Annotated[Annotated[str, Field(max_length=52, strict=True)] | None, About(_COMMANDS)] = None
    # the payload
    architecture: Annotated[
        Annotated[str, Field(max_length=256)] | dict[str, Any] | None, About("shared.model.architecture")
    ] = None
    trans_uses: Annotated[Text64 | None, About(_JOB_FIELDS)] = None
    trans_home: Annotated[Text128 | None, About(_JOB_FIELDS)] = None
    trans_path: Annotated[Text128 | None, About(_JOB_FIELDS)] = None
    container_name: Annotated[Text256 | None, About(_JOB_FIELDS)] = None
    multi_step_exec: Annotated[MultiStepExec | None, About("services.job_generation")] = None
    # command lines
    job_parameters: Annotated[
        Annotated[list[Item], Field(min_length=1, max_length=MOST_ITEMS)],
        About("services.task_definition.tasks.policy.outputs"),
    ]
    log: Annotated[Annotated[Item | list[Item] | None, at_most(MOST_LOGS)], About(_OUTPUTS)] = None
    # merge jobs
    log_merge: Annotated[Item | None, About(_OUTPUTS)] = None
    merge_spec: Annotated[MergeSpec | None, About(_OUTPUTS)] = None
    # build jobs
    build_spec: Annotated[BuildSpec | None, About(_OUTPUTS)] = None
    # the pre-processing job
    prepro_spec: Annotated[PreproSpec | None, About(_OUTPUTS)] = None


class CarriedFields(FormFields):
    """What clients send along: kept with the task and shown, nothing is decided by it."""

    cli_params: Annotated[
        Annotated[str, Field(max_length=100_000, strict=True)] | None, About(kept="the command that was typed")
    ] = None
    framework: Annotated[Text64 | None, About(kept="says by what the task was made")] = None
    os_info: Annotated[Text256 | None, About(kept="says on what machine the task was submitted")] = None
    fixed_sandbox: Annotated[LongText | None, About("services.task_definition.tasks.policy.resubmission")] = None
    no_email: Annotated[Flag, About("services.task_definition.tasks.notifying.noting")] = False
    get_num_events_in_metadata: Annotated[
        Flag, About(kept="numbers of events of input files are always those of the catalogue")
    ] = False
    skip_empty_input: Annotated[Flag, About(kept="files without events are read like others, as in the field")] = False
    ds_for: Annotated[
        dict[Text32, LongText] | None, About(kept="says again which datasets a stream has: dsForIN and its like")
    ] = None
