"""A task's JSON as typed values: checked whole, every problem listed at once, then frozen.

`parse_task` is the only way in. `TaskSpec.columns` is the part of table `tasks` that follows from the JSON alone;
`TaskSpec.split_rule` is every rule under its JSON name (`nFilesPerJob`, `skipScout`, `ipConnectivity`, ...): what
`tasks.split_rule` holds, and all services read as `SplitRules`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from services.task_definition.tasks.policy.event_service import event_service_column, events_per_range, use_jumbo
from services.task_definition.tasks.policy.points import rules_of_search
from services.task_definition.tasks.policy.task_parameters.table import TaskParameters, with_numbers
from services.task_definition.tasks.policy.task_spec_checks import problems_between_fields
from services.task_definition.tasks.policy.task_spec_items import Item
from services.task_definition.tasks.policy.task_spec_parts import form_in_steps
from services.task_definition.tasks.policy.task_spec_problems import InvalidTask
from shared.model.analysis import ANALYSIS, PRODUCTION, is_analysis
from shared.model.architecture import image_of_command_line, platform_and_image
from shared.model.dataset_types import FINAL_OUTPUT_TYPES
from shared.model.steps import Steps, at_once
from shared.model.task_spec_problems import problem
from shared.task.in_effect import SplitRules, rules_of
from shared.task.rules import TO_PREPROCESS
from shared.task.stored import stored_rules

#: column of `tasks` -> field of the JSON model, where the value goes as it is
_COLUMNS = (
    "prod_source_label", "task_name", "working_group", "vo", "core_count", "task_type", "processing_type",
    "trans_uses", "trans_home", "trans_path", "out_disk_count", "out_disk_unit", "work_disk_count", "work_disk_unit",
    "io_intensity", "io_intensity_unit", "disk_io", "disk_io_unit", "cloud", "site", "nucleus", "req_id",
    "country_group", "ticket_id", "ticket_system_type", "campaign", "merge_ram_count", "merge_ram_unit",
    "merge_core_count", "cpu_efficiency", "base_walltime", "base_ram_count", "request_type", "walltime",
    "walltime_unit", "container_name", "term_condition",
)  # fmt: skip
_UNIT_OF = {
    "ram_count": "ram_unit", "out_disk_count": "out_disk_unit", "work_disk_count": "work_disk_unit",
    "cpu_time": "cpu_time_unit", "io_intensity": "io_intensity_unit", "disk_io": "disk_io_unit",
    "walltime": "walltime_unit", "merge_ram_count": "merge_ram_unit",
}  # fmt: skip


@dataclass(frozen=True)
class TaskDefaults:
    """What a task gets that does not say; they differ for analysis (JEDI: Using scout jobs, Job retry)."""

    max_attempt: int = 3
    max_failure: int | None = None
    ram_count: int = 0
    ram_unit: str = "MB"
    out_disk_count: int = 0
    cpu_efficiency: int = 90
    base_walltime_s: int = 600
    scout_success_rate: int | None = None


_DEFAULTS = {
    PRODUCTION: TaskDefaults(),
    ANALYSIS: TaskDefaults(10, 3, 2000, "MBPerCore", 500, 90, 600, 5),
}
#: memory in MB that jobs share whatever their number of cores (JEDI: Memory probe and brokerage)
_BASE_RAM_MB = {"simul": 1000, "pile": 1500, "reco": 1000}


@dataclass(frozen=True)
class TaskSpec:
    """One valid task; `parameters` are its fields, `submitted` the JSON as it came."""

    parameters: TaskParameters
    submitted: Mapping[str, Any]

    @property
    def defaults(self) -> TaskDefaults:
        """Those of its type."""
        return _DEFAULTS[self.parameters.task_type]

    @property
    def is_analysis(self) -> bool:
        """Whether it is analysis rather than production; its type decides, its label where there is none."""
        return is_analysis(self.parameters.task_type, self.parameters.prod_source_label)

    @property
    def inputs(self) -> tuple[Item, ...]:
        """Its input items, the master first."""
        return tuple(item for item in self.parameters.job_parameters if item.param_type == "input")

    @property
    def priority(self) -> int:
        """Its `taskPriority`; 0 where it states none. Larger goes first."""
        return self.parameters.task_priority or 0

    @property
    def no_input(self) -> bool:
        """Whether its jobs are counted by pseudo files."""
        return self.parameters.no_input or not self.inputs

    @property
    def num_records(self) -> int | None:
        """File records of its pseudo input, one for each job, where the item says how many (num_records)."""
        return next((one.records for one in self.parameters.job_parameters if one.records is not None), None)

    @property
    def n_at_once(self) -> int:
        """Jobs that evaluate points at the same time: those that a task without input would have.

        Example: nEvents 4 and nEventsPerJob 1, as the field's client says it, are 4.
        """
        given = self.parameters
        if given.n_events is not None and given.n_events_per_job is not None:
            return -(-given.n_events // given.n_events_per_job)
        return self.num_records or given.n_files or 1

    @property
    def physical_names(self) -> tuple[tuple[str, int | None], ...]:
        """The files that it lists by physical name (pfnList), with their events where these are known.

        Example: ["root://a/f.root^100", "root://a/g.root"] are f.root with 100 events and g.root.
        """
        found = []
        for stated in (self.parameters.pfn_list or ())[: self.parameters.n_files]:
            name, mark, events = stated.rpartition("^")
            found.append((name, int(events)) if mark else (stated, self.parameters.events_per_file()))
        return tuple(found)

    @property
    def allows_duplication(self) -> bool:
        """Whether another task may write the same datasets.

        PanDA's client asks for a unique name of the task unless its user allows duplication: that is how it says so.
        """
        given = self.parameters
        client = (given.processing_type or "").startswith("panda-client")
        return given.allow_task_duplication or (client and not given.unique_task_name)

    @property
    def destination(self) -> str | None:
        """Where its outputs are kept that name no storage or site of their own; without one, at its nucleus."""
        return self.parameters.destination

    @property
    def outputs(self) -> tuple[Item, ...]:
        """Its output and log items."""
        items = (item for item in self.parameters.job_parameters if item.param_type in FINAL_OUTPUT_TYPES)
        return (*items, *(item for _, item in self.parameters.named_logs()))

    def columns(self) -> dict[str, Any]:
        """Columns of `tasks` that follow from the JSON alone (share, resource type and work queue do not)."""
        return dict(self._columns)

    @cached_property
    def _columns(self) -> Mapping[str, Any]:
        given, default = self.parameters, self.defaults
        row: dict[str, Any] = {name: getattr(given, name) for name in _COLUMNS}
        row["architecture"], row["container_name"] = self._platform_and_image(given.stated_architecture())
        row["ram_count"] = default.ram_count if given.ram_count is None else given.ram_count
        stated_unit = given.ram_unit or given.ram_count_unit
        row["ram_unit"] = stated_unit or (default.ram_unit if given.ram_count is None else "MB")
        row["out_disk_count"] = default.out_disk_count if given.out_disk_count is None else given.out_disk_count
        row["out_disk_unit"] = given.out_disk_unit or "kB"
        row["cpu_time_unit"] = given.cpu_time_unit or "HS06sPerEvent"
        row["cpu_time"] = _whole_cpu_time(given.cpu_time, row)
        row["cpu_efficiency"] = default.cpu_efficiency if given.cpu_efficiency is None else given.cpu_efficiency
        row["base_walltime"] = default.base_walltime_s if given.base_walltime is None else given.base_walltime
        row["core_count"] = 1 if given.core_count is None else given.core_count
        row["base_ram_count"] = _base_ram_mb(row) if given.base_ram_count is None else given.base_ram_count
        row["task_priority"] = self.priority
        row["current_priority"] = self.priority if given.current_priority is None else given.current_priority
        row["goal"] = round(given.goal * 10) if given.goal is not None and given.goal <= 100 else None
        row["max_attempt"] = 1 if given.disable_auto_retry else given.max_attempt or default.max_attempt
        row["max_failure"] = given.max_failure or default.max_failure
        row["ip_connectivity"] = given.ip_connectivity
        row["event_service"] = event_service_column(given)
        row["use_jumbo"] = use_jumbo(given)
        row["num_throttled"] = None if given.no_throttle else 0
        row["fixed_units"] = sorted(name for name, unit in _UNIT_OF.items() if str(row[unit] or "").endswith("Fixed"))
        return row

    def _platform_and_image(self, architecture: str | None) -> tuple[str | None, str | None]:
        """The image is what the task says; else what its architecture, then its command line, names."""
        platform, behind = (None, None) if architecture is None else platform_and_image(architecture)
        constants = " ".join(item.value for item in self.parameters.job_parameters if item.type == "constant")
        return platform, self.parameters.container_name or behind or image_of_command_line(constants)

    def split_rule(self) -> dict[str, Any]:
        """Every rule that was given or follows, under its JSON name; flags only when true."""
        return dict(self._split_rule)

    @cached_property
    def _split_rule(self) -> Mapping[str, Any]:
        given = self.parameters
        worked_out: dict[str, Any] = {
            "n_events_per_input_file": given.events_per_file(),
            "granularity": given.granularity(),
            "events_per_range": events_per_range(given),
            **rules_of_search(given, n_at_once=self.n_at_once),
        }
        if given.build_spec is not None:
            worked_out["uses_build"] = True
        if given.load_xml is not None:  # each job has a boundary of its own; none is a scout (PanDA: Scout jobs)
            worked_out |= {"group_boundary": 4, "skip_scout": True}
        if given.segment_specs is not None and given.load_xml is None:
            worked_out["group_boundary"] = given.group_boundary or 1
        if given.prepro_spec is not None:
            worked_out["preprocessing"] = TO_PREPROCESS
        merge = given.esmerge_spec or given.merge_spec
        if merge is not None and "use_local_io" in merge.model_fields_set:
            worked_out["merges_from_scratch"] = merge.use_local_io
        if given.scout_success_rate is None:
            worked_out["scout_success_rate"] = self.defaults.scout_success_rate
        return stored_rules(given, **worked_out)

    def rules(self) -> SplitRules:
        """The same as they are in effect."""
        return rules_of(self.split_rule())


def _base_ram_mb(row: Mapping[str, Any]) -> int | None:
    """By the kind of processing, for memory per core on several cores; with one core it cancels out and stays unset.

    Example: simulation on 8 cores with 1200 MB per core needs 1000 + 8 x 1200 = 10600 MB. Source: JEDI, Memory probe
    and brokerage.
    """
    if row["core_count"] == 1 or not str(row["ram_unit"]).startswith("MBPerCore"):
        return None
    return _BASE_RAM_MB.get(row["processing_type"] or "")


def _whole_cpu_time(cpu_time: float | None, row: dict[str, Any]) -> int | None:
    """The column is a whole number: below 10 the thousandth unit keeps the precision."""
    if cpu_time is None or cpu_time == int(cpu_time):
        return None if cpu_time is None else int(cpu_time)
    unit = str(row["cpu_time_unit"])
    if cpu_time < 10 and unit.startswith("HS06s"):
        row["cpu_time_unit"] = f"m{unit}"
        return round(cpu_time * 1000)
    return round(cpu_time)


def parse_task(parameters: Any) -> TaskSpec:
    """Check a task's JSON. Raises InvalidTask with every problem found."""
    return at_once(task_in_steps(parameters))


def task_in_steps(parameters: Any) -> Steps[TaskSpec]:
    """The same, an item of its lists in each step."""
    if not isinstance(parameters, Mapping):
        raise InvalidTask([problem("task_parameters", parameters, "allowed: an object")])
    parameters = with_numbers(parameters)
    form = yield from form_in_steps(parameters)
    problems = [*form.problems, *(yield from problems_between_fields(form))]
    spec = TaskSpec(form.given, dict(parameters)) if form.is_whole else None
    if spec is None or problems:
        raise InvalidTask(problems, spec)
    return spec
