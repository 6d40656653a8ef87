"""Parameters that say where a task may run."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from services.task_definition.policy.task_parameters.about import About, TaskFields
from services.task_definition.policy.task_parameters.kinds import Cloud, Network
from services.task_definition.policy.task_spec_items import Flag, LongText, NameList, Text32

_REQUEST = "shared.brokerage.request_of_task"
_NUCLEUS = "services.task_brokerage.policy.request"


class PlaceFields(TaskFields):
    """Where it may run."""

    cloud: Annotated[Cloud | None, About("services.task_definition.policy.commands", retry=True)] = None
    site: Annotated[LongText | None, About("services.task_definition.policy.commands", retry=True)] = None
    nucleus: Annotated[
        Annotated[str, Field(max_length=52, strict=True)] | None, About("services.task_definition.policy.commands")
    ] = None
    included_site: Annotated[NameList | None, About(_REQUEST, retry=True)] = None
    excluded_site: Annotated[NameList | None, About(_REQUEST, retry=True)] = None
    sam_stations: Annotated[NameList | None, About(_REQUEST)] = None
    requirements: Annotated[LongText | None, About(_REQUEST)] = None
    tags: Annotated[NameList | None, About("services.job_generation.policy.order_facts")] = None
    ip_connectivity: Annotated[Network | None, About("shared.model.needs", code="IP")] = None
    ip_stack: Annotated[Literal["IPv4", "IPv6", ""] | None, About("shared.model.needs", code="IK")] = None
    t1_weight: Annotated[
        Annotated[int, Field(ge=-1, le=10_000, strict=True)] | None,
        About("services.job_brokerage.policy.weights", unit="weight", code="TW", live=True),
    ] = None
    avoid_vp: Annotated[Flag, About("services.job_brokerage.policy.request", code="AV", live=True)] = False
    disable_reassign: Annotated[Flag, About("services.watchdog.store.due", code="DI")] = False
    full_chain: Annotated[Literal["only", "require", "capable"] | None, About(_NUCLEUS, code="FU")] = None
    only_tags_for_fc: Annotated[Flag, About("shared.brokerage.software", code="OT", live=True)] = False
    alt_stage_out: Annotated[Text32 | None, About("services.job_generation.policy.job_fields", code="AT")] = None
    cloud_as_vo: Annotated[Flag, About("services.job_generation.policy.job_fields", code="CV")] = False
    stay_output_on_site: Annotated[Flag, About("services.task_definition.policy.outputs", code="SO")] = False
    put_log_to_os: Annotated[Flag, About("services.job_generation.policy.job_fields", code="PO")] = False
    intermediate_task: Annotated[Flag, About("services.task_definition.completing", code="IN")] = False
    ddm_back_end: Annotated[
        Text32 | None, About(kept="the catalogue of a VO is set by its operators", code="DE", warned=True)
    ] = None
    task_broker_on_master: Annotated[Flag, About(_NUCLEUS)] = False
