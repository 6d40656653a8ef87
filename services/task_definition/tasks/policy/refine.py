"""Turns a registered task into the rows that define it, before anything is written.

Source: JEDI, Task Refiner and Contents Feeder. A VO or a label with rules of its own registers a `Refiner` in
`REFINERS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from services.task_definition.tasks.policy.commands import needs_nucleus
from services.task_definition.tasks.policy.definition_plan import (
    DefinitionFacts,
    DefinitionRefused,
    InputDatasetPlan,
    Outcome,
    Postponed,
    PseudoPlan,
    Refined,
)
from services.task_definition.tasks.policy.final_status import parent_is_corrupted
from services.task_definition.tasks.policy.outputs import command_lines, plan_outputs
from services.task_definition.tasks.policy.stated_files import of_segments, of_xml
from services.task_definition.tasks.policy.task_spec import TaskSpec
from services.task_definition.tasks.policy.task_spec_items import Item
from shared.catalogue.port import MOST_STOOD_FOR, DatasetFacts
from shared.model.job_xml import read_job_xml
from shared.model.names import stands_for_others
from shared.states.task import TaskStatus
from shared.task.in_effect import rules_of
from shared.task.stored import with_rules

FOLLOWED_IF_KNOWN: tuple[TaskStatus, ...] = ("done", "finished")
#: attributes of secondaries whose files many jobs share: their number follows no ratio
SHARED_ATTRIBUTES = ("nosplit", "repeat", "reusable", "random", "eventRatio", "nFilesPerJob")
#: the placeholder of the database release that every job reads (PanDA client: --dbRelease)
DBRELEASE_STREAM = "DBR"

Refiner = Callable[[TaskSpec, int, DefinitionFacts], Outcome]


def refine(spec: TaskSpec, task_id: int, facts: DefinitionFacts) -> Outcome:
    """Plan the rows of a task, wait for its parent or its input, or give it up."""
    given = spec.parameters
    held = held_by_parent(spec, facts.parent_status)
    if held is not None:
        return held
    for name in (name for name in facts.datasets if stands_for_others(name)):
        if len(facts.datasets[name].constituents) > MOST_STOOD_FOR:
            return DefinitionRefused(f"{name} stands for more than {MOST_STOOD_FOR} datasets")
    waits_for_parent = _waits_for_parent(facts.parent_status)
    unknown = sorted({name for item in spec.inputs for name in item.datasets() if name not in facts.datasets})
    if unknown and not (given.ignore_missing_in_ds and _enough_is_known(spec, facts)):
        reason = f"input datasets unknown to the catalogue: {', '.join(unknown)}"
        return Postponed(reason) if given.wait_input or waits_for_parent else DefinitionRefused(reason)
    inputs = _inputs(spec, facts.datasets)
    if not isinstance(inputs, DefinitionRefused) and given.load_xml is not None:
        inputs = of_xml(read_job_xml(given.load_xml), inputs)
    elif not isinstance(inputs, DefinitionRefused) and given.segment_specs is not None:
        inputs = of_segments([one.files for one in given.segment_specs], inputs)
    if isinstance(inputs, DefinitionRefused):
        return inputs
    return Refined(
        split_rule=_split_rule(spec, next((facts.datasets[one.name] for one in inputs if one.is_master), None)),
        inputs=inputs,
        pseudo=_pseudo(spec) if spec.no_input else None,
        outputs=plan_outputs(spec, task_id),
        command_lines=command_lines(spec, task_id),
        next_status=_next_status(spec),
        first_event=1 + (_offset(spec, "FIRSTEVENT") or 0),
        seed_offset=_offset(spec, "RNDMSEED"),
        sequence_offset=None if spec.no_input else _offset(spec, "SEQNUMBER"),
        max_files=given.n_files,
        max_events=given.n_events,
    )


def held_by_parent(spec: TaskSpec, parent_status: TaskStatus | None) -> Postponed | DefinitionRefused | None:
    """What the parent of a task does to it, before anything else is looked at; None: it may go on."""
    parent_id = spec.parameters.parent_task_id
    if parent_is_corrupted(parent_status):
        return DefinitionRefused(f"parent task {parent_id} is {parent_status}")
    if _waits_for_parent(parent_status) and not spec.parameters.no_wait_parent:
        return Postponed(f"parent task {parent_id} is {parent_status}: waits for it to end")
    return None


def _waits_for_parent(parent_status: TaskStatus | None) -> bool:
    return parent_status is not None and parent_status not in FOLLOWED_IF_KNOWN


#: refiners by "<vo>.<label>"; `any` stands for every VO or label
REFINERS: dict[str, Refiner] = {"any.any": refine}


def refiner_for(vo: str, label: str) -> Refiner:
    """The most specific refiner: VO and label, VO, label, any."""
    for key in (f"{vo}.{label}", f"{vo}.any", f"any.{label}"):
        if key in REFINERS:
            return REFINERS[key]
    return REFINERS["any.any"]


def _next_status(spec: TaskSpec) -> TaskStatus:
    """Analysis and pre-assigned tasks need no nucleus chosen."""
    given = spec.parameters
    needed = needs_nucleus(is_analysis=spec.is_analysis, nucleus=given.nucleus, site=given.site, cloud=given.cloud)
    return "assigning" if needed else "ready"


def _split_rule(spec: TaskSpec, master: DatasetFacts | None) -> dict[str, Any]:
    """The given rules, and the number of files that whole-file splitting by events amounts to.

    With a dynamic number of events nFilesPerJob counts ranges: x events of a file // minGranularity.
    """
    rules, given, granularity = spec.split_rule(), spec.parameters, spec.parameters.granularity()
    per_job = rules_of(rules).n_files_per_job or given.n_files_per_job
    if granularity and given.n_files_per_job and master is not None:
        per_job = given.n_files_per_job * max(1, _events_of_file(spec, master) // granularity)
    if spec.no_input and given.n_events_per_job is None and not spec.physical_names:
        per_job = 1
    return with_rules(rules, n_files_per_job=per_job, seed_offset=_offset(spec, "RNDMSEED") or None)


def _enough_is_known(spec: TaskSpec, facts: DefinitionFacts) -> bool:
    """Whether each input has a dataset that the catalogue knows; ignoreMissingInDS leaves out the others."""
    return all(any(name in facts.datasets for name in item.datasets()) for item in spec.inputs)


def _offset(spec: TaskSpec, placeholder: str) -> int | None:
    """The offset of a number; None where no item asks for the number at all.

    The template of the number states its offset; constants (the command line) may ask for the number before it.
    """
    asking = [item for item in spec.parameters.job_parameters if f"${{{placeholder}" in item.value]
    asking.sort(key=lambda item: item.type == "constant")
    return (asking[0].offset or 0) if asking else None


def _inputs(spec: TaskSpec, datasets: Mapping[str, DatasetFacts]) -> tuple[InputDatasetPlan, ...] | DefinitionRefused:
    """Containers replaced by their datasets; the first item's are masters, the others follow them."""
    plans: list[InputDatasetPlan] = []
    for position, item in enumerate(spec.inputs):
        for named in item.datasets():
            if named not in datasets:
                continue
            facts = datasets[named]
            names = facts.constituents if facts.kind == "container" else (named,)
            for name in names:
                if any(plan.name == name and plan.stream == item.stream("IN") for plan in plans):
                    continue
                container = named if facts.kind == "container" else None
                plan = _input(spec, item, position, datasets[name], container)
                if isinstance(plan, DefinitionRefused):
                    return plan
                plans.append(plan)
    masters = [plan for plan in plans if plan.is_master]
    if spec.parameters.reuse_sec_on_demand and spec.parameters.load_xml is None:
        plans = _reused_on_demand(plans, datasets)
    if spec.inputs and not (plans if spec.no_input else masters) and not spec.parameters.allow_empty_input:
        return DefinitionRefused(f"container {spec.inputs[0].dataset} is empty")
    return tuple(plans)


def _reused_on_demand(plans: list[InputDatasetPlan], datasets: Mapping[str, DatasetFacts]) -> list[InputDatasetPlan]:
    """Secondary input that follows a ratio is read again from its start where its files are too few.

    Example: 10 master files with a ratio of 2 need 20 files; a secondary of 15 becomes reusable, one of 20 does not.
    """
    n_masters = sum(datasets[one.name].n_files for one in plans if one.is_master)
    n_files: dict[str, int] = {}
    for one in plans:
        n_files[one.stream] = n_files.get(one.stream, 0) + datasets[one.name].n_files
    return [
        replace(one, attributes={**one.attributes, "reusable": True}, files_per_master_file=None)
        if one.files_per_master_file is not None and n_files[one.stream] < n_masters * one.files_per_master_file
        else one
        for one in plans
    ]


def _input(
    spec: TaskSpec, item: Item, position: int, facts: DatasetFacts, container: str | None
) -> InputDatasetPlan | DefinitionRefused:
    given, is_master = spec.parameters, position == 0 and not spec.no_input
    attributes = item.dataset_attributes()
    if item.stream("IN") == DBRELEASE_STREAM:  # its one file goes with every job, whatever the client says
        attributes = {"repeat": True, "nosplit": True, **attributes}
    if attributes.get("check") and given.parent_task_id is None:
        return DefinitionRefused(f"attribute check of {facts.name} needs parent_tid: the task whose files it checks")
    unit = _events_per_unit(spec, facts) if is_master else None
    if isinstance(unit, DefinitionRefused):
        return unit
    follows = None
    if not is_master and not any(attributes.get(name) for name in SHARED_ATTRIBUTES):
        follows = float(attributes.get("ratio", 1))
    return InputDatasetPlan(
        name=facts.name,
        scope=facts.scope,
        stream=item.stream("IN" if is_master else f"IN{position + 1}"),
        is_master=is_master,
        container=container,
        state=facts.state,
        attributes=attributes,
        events_per_unit=unit,
        units_per_file=1 if unit is None else max(1, -(-_events_of_file(spec, facts) // unit)),
        events_per_file=given.events_per_file() if is_master and not given.use_real_num_events else None,
        names=None if item.files is None else tuple(item.files),
        include=tuple(item.include or ()),
        exclude=tuple(item.exclude or ()),
        files_per_master_file=follows,
        token=item.token,
        made_by=given.parent_task_id if attributes.get("check") else None,
        skip_files=int(attributes.get("offset", 0)),
    )


def _events_per_unit(spec: TaskSpec, facts: DatasetFacts) -> int | DefinitionRefused | None:
    """Events of one unit where a job takes only part of a file; None for whole files (JEDI: Event-level splitting)."""
    given = spec.parameters
    rules = spec.rules()
    per_job = given.granularity() or rules.n_events_per_job or rules.target_events_per_job
    if per_job is None:
        return None
    per_file = _events_of_file(spec, facts)
    if not per_file:
        if facts.n_files == 0:
            return None
        return DefinitionRefused(
            f"splitting by events needs the number of events of each file: the catalogue has none for {facts.name}; "
            "give nEventsPerInputFile"
        )
    return per_job if per_job < per_file else None


def _events_of_file(spec: TaskSpec, facts: DatasetFacts) -> int:
    """As the task says, else the mean rounded up: a file may have as many; 0 where it is unknown."""
    stated = None if spec.parameters.use_real_num_events else spec.parameters.events_per_file()
    return stated or (-(-facts.n_events // facts.n_files) if facts.n_files else 0)


def _pseudo(spec: TaskSpec) -> PseudoPlan:
    """One row for each job: by events, by nFiles, or as many as the pseudo input has records (num_records)."""
    given = spec.parameters
    if given.evaluates_points:
        return PseudoPlan(1, 1, 1)  # a job evaluates one point at least; points are ranges of the one row
    per_job, offset = given.n_events_per_job or given.events_per_file(), _offset(spec, "SEQNUMBER") or 0
    if given.n_events is not None and given.n_events_per_job is not None:
        n_rows = -(-given.n_events // given.n_events_per_job)
        return PseudoPlan(n_rows, given.n_events_per_job, given.n_events, offset=offset)
    names = spec.physical_names
    if names:
        known = [n_events for _, n_events in names if n_events is not None]
        return PseudoPlan(len(names), None, sum(known) if len(known) == len(names) else None, names)
    n_rows = spec.num_records or given.n_files or 1
    if given.n_events is not None and given.n_files is None:  # nEvents alone are those of one job
        per_job = given.n_events
    return PseudoPlan(n_rows, per_job, None if per_job is None else n_rows * per_job, offset=offset)
