"""Parameters of the event service: events are handed out in ranges while jobs run."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from services.task_definition.policy.task_parameters.about import About, TaskFields
from services.task_definition.policy.task_parameters.kinds import Attempts, Events, MergeSpec
from services.task_definition.policy.task_spec_items import Flag

_RULES = "services.job_generation.policy.rules"
_CHOICE = "services.task_definition.policy.event_service"

#: jobs that process the same input at once
Consumers = Annotated[int, Field(ge=1, le=100, strict=True)]
Sites = Annotated[int, Field(ge=1, le=20, strict=True)]
Fraction = Annotated[float, Field(ge=0, le=1, strict=True, allow_inf_nan=False)]


class EventServiceFields(TaskFields):
    """How events are handed out, tried again and merged."""

    n_events_per_worker: Annotated[Events | None, About(_CHOICE, unit="events", code="ES", live=True)] = None
    es_convertible: Annotated[Flag, About(_CHOICE)] = False
    es_fraction: Annotated[Fraction | None, About(_CHOICE)] = None
    n_es_consumers: Annotated[Consumers | None, About(_RULES, unit="jobs", code="EC", live=True)] = None
    n_sites_per_job: Annotated[Sites | None, About(_RULES, unit="sites", code="NS")] = None
    max_attempt_es: Annotated[Attempts | None, About(_RULES, unit="attempts", code="XA")] = None
    max_attempt_es_job: Annotated[Attempts | None, About(_RULES, unit="attempts", code="XJ")] = None
    not_discard_events: Annotated[Flag, About(_RULES, code="ND")] = False
    dec_att_on_failed_es: Annotated[Flag, About(_RULES, code="XF")] = False
    resurrect_consumers: Annotated[Flag, About(_RULES, code="SC")] = False
    merge_es_on_os: Annotated[Flag, About(_RULES, code="ME")] = False
    allow_partial_finish: Annotated[Flag, About(_RULES, code="AP")] = False
    in_file_pos_evt_num: Annotated[Flag, About(_RULES, code="IF")] = False
    n_jumbo_jobs: Annotated[Consumers | None, About(_RULES, unit="jobs", code="NJ", live=True)] = None
    max_jumbo_per_site: Annotated[Consumers | None, About(_RULES, unit="jobs", code="MJ")] = None
    fine_grained_proc: Annotated[Flag, About(_RULES, code="FP")] = False
    use_job_cloning: Annotated[Literal["runonce", "storeonce"] | None, About(_RULES, code="UC")] = None
    esmerge_spec: Annotated[MergeSpec | None, About("services.task_definition.policy.outputs")] = None
