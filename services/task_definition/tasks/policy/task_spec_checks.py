"""What must hold between the fields of a task, and between its items; pure, every problem listed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from services.task_definition.data.policy.allowed_names import (
    SCOPES,
    TASK_NAMES,
    is_catalogue_name,
    is_scope,
    is_task_name,
)
from services.task_definition.tasks.policy.event_service import event_service_problems, states_event_service
from services.task_definition.tasks.policy.job_xml import job_xml_problems
from services.task_definition.tasks.policy.outputs_by_expression import by_expression_problems, expression_problems
from services.task_definition.tasks.policy.placeholder_checks import placeholder_problems, unknown_yet_problems
from services.task_definition.tasks.policy.points import point_problems
from services.task_definition.tasks.policy.preprocessing import is_unknown_yet
from services.task_definition.tasks.policy.segments import segment_problems
from services.task_definition.tasks.policy.task_parameters.table import TaskParameters
from services.task_definition.tasks.policy.task_spec_items import PLACEHOLDER, SERIAL_NUMBER, Item
from services.task_definition.tasks.policy.task_spec_parts import Form, as_far_as_readable
from shared.model.architecture import InvalidArchitecture, parse_architecture, platform_and_image
from shared.model.dataset_types import FINAL_OUTPUT_TYPES
from shared.model.names import CATALOGUE_NAMES, UNMERGED_PREFIX, WILDCARD, scope_of
from shared.model.problems import FieldProblem
from shared.model.steps import Steps
from shared.model.task_spec_problems import problem
from shared.model.units import UnknownUnit, parse_cpu_time, parse_io, parse_output_size, parse_ram, parse_size

MAX_DATASET_NAME, MAX_FILE_TEMPLATE, MAX_SCOPE, MAX_STREAM = 255, 250, 30, 20
#: a dataset of a site has its number behind the name, and one in a container of its own name that of its task
MAX_NUMBERS = 2 * len(".1234567890123456789")
Check = Callable[[TaskParameters], Iterable[FieldProblem | None]]


def problems_between_fields(form: Form) -> Steps[list[FieldProblem]]:
    """Every problem that no single field shows, an item in each step.

    A check that asks for a field that is wrong itself says nothing.
    """
    found: list[FieldProblem] = []
    for check in _CHECKS:
        found += yield from _told(check, form.given)
    for place, item in form.items:
        yield
        found += _item(f"jobParameters.{place}", item)
    for check in (_logs, _streams, placeholder_problems, _log_of_merge_jobs):
        found += yield from _told(check, form.given)
    return found


def _told(check: Check, given: TaskParameters) -> Steps[list[FieldProblem]]:
    """What a check finds; where it says None a step ends."""
    found = []
    for one in as_far_as_readable(check, given):
        if one is None:
            yield
        else:
            found.append(one)
    return found


def _name(given: TaskParameters) -> Iterable[FieldProblem]:
    if not is_task_name(given.task_name):
        yield problem("taskName", given.task_name, f"allowed: {TASK_NAMES}")


def _logs(given: TaskParameters) -> Iterable[FieldProblem | None]:
    for name, item in given.named_logs():
        yield None
        allowed = FINAL_OUTPUT_TYPES if name == "log_merge" else ("log",)
        if item.param_type not in (None, *allowed):
            yield problem(f"{name}.param_type", item.param_type, f"allowed: {', '.join(map(repr, allowed))}")
        yield from _output(name, item)
        yield from _attributes(name, item)


def _log_of_merge_jobs(given: TaskParameters) -> Iterable[FieldProblem]:
    if given.log_merge is not None and not given.merge_output and not states_event_service(given):
        told = "needs mergeOutput = true or event service: it is the log of merge jobs"
        yield problem("log_merge", given.log_merge.dataset, told)


def _unit(field: str, convert: Callable[[TaskParameters], object]) -> Check:
    """Make the check of one unit, by brokerage's own conversion; an absent amount has none."""

    def check(given: TaskParameters) -> Iterable[FieldProblem]:
        """Convert the amount; tell an unknown unit with those that are allowed."""
        try:
            convert(given)
        except UnknownUnit as error:
            yield problem(field, error.unit, f"unknown unit; allowed: {', '.join(error.allowed)}")
        except ValueError as error:
            yield problem(field, None, str(error).removeprefix(f"{field}: "))

    return check


_UNITS = (
    _unit("ramUnit", lambda given: parse_ram(given.ram_count, given.ram_unit or given.ram_count_unit)),
    _unit("mergeRamUnit", lambda given: parse_ram(given.merge_ram_count, given.merge_ram_unit)),
    _unit("outDiskUnit", lambda given: parse_output_size(given.out_disk_count, given.out_disk_unit)),
    _unit("workDiskUnit", lambda given: parse_size("workDiskCount", given.work_disk_count, given.work_disk_unit)),
    _unit("cpuTimeUnit", lambda given: parse_cpu_time(given.cpu_time, given.cpu_time_unit)),
    _unit("ioIntensityUnit", lambda given: parse_io("ioIntensity", given.io_intensity, given.io_intensity_unit)),
    _unit("diskIOUnit", lambda given: parse_io("diskIO", given.disk_io, given.disk_io_unit)),
)


def _architecture(given: TaskParameters) -> Iterable[FieldProblem]:
    """Understood by the same reader that brokerage uses later."""
    stated = given.stated_architecture()
    platform = None if stated is None else platform_and_image(stated)[0]
    try:
        parse_architecture(platform)
    except InvalidArchitecture as error:
        yield problem("architecture", platform, str(error))


def _input(given: TaskParameters) -> Iterable[FieldProblem]:
    inputs = [item for item in given.job_parameters if item.param_type == "input"]
    for index, item in enumerate(given.job_parameters):
        if inputs and item.records is not None and not given.no_input:
            allowed = "not allowed together with an item of param_type 'input', which says how many jobs there are"
            yield problem(f"jobParameters.{index}.num_records", item.records, allowed)
    yield from _physical_names(given, has_inputs=bool(inputs))
    if inputs and not given.no_input:
        return
    if not given.no_input and not any(item.param_type == "pseudo_input" for item in given.job_parameters):
        yield problem("jobParameters", None, "needs an item of param_type 'input', or the task noInput = true")
    elif any(item.records is not None for item in given.job_parameters):
        for name, value in (("nFiles", given.n_files), ("nEvents", given.n_events), ("pfnList", given.pfn_list)):
            if value is not None:
                yield problem(name, value, "not allowed together with num_records, which says how many jobs to make")
    elif given.n_events is None and given.n_files is None and given.pfn_list is None:
        yield problem("nEvents", None, "is needed (or nFiles) where there is no input: it says how many jobs to make")


def _physical_names(given: TaskParameters, *, has_inputs: bool) -> Iterable[FieldProblem]:
    """Files by physical name take the place of input datasets, and are read whole."""
    if given.pfn_list is None:
        return
    if has_inputs:
        yield problem("pfnList", None, "not allowed together with an item of param_type 'input'")
    names = [one.rpartition("^")[0] or one for one in given.pfn_list]
    [(most_named, n_times)] = Counter(names).most_common(1)
    if n_times > 1:
        yield problem("pfnList", most_named, f"is there {n_times} times; allowed: each file once")
    if given.n_files is not None and given.n_files > len(names):
        yield problem("nFiles", given.n_files, f"allowed: at most the {len(names)} files of pfnList")
    for name, value in (("nEventsPerJob", given.n_events_per_job), ("nEvents", given.n_events)):
        if value:
            yield problem(name, value, "not allowed together with pfnList: its files are not cut; give nFilesPerJob")


def _middle_names(given: TaskParameters) -> Iterable[FieldProblem]:
    """Fields of input names go into output names by ${MIDDLENAME}, and stay the same within a job."""
    if given.names_from_files and given.group_boundary in (3, 4):
        yield problem("useFileAsSourceLFN", True, "not allowed together with groupBoundaryID 3 and 4, which join files")
    if given.add_nth_field_to_lfn is None:
        if given.names_from_files:
            yield problem("useFileAsSourceLFN", True, "needs addNthFieldToLFN: which fields of the file's name")
        return
    stated = given.add_nth_field_to_lfn
    outputs = [item for item in given.job_parameters if item.param_type in FINAL_OUTPUT_TYPES]
    if not any("${MIDDLENAME}" in item.value for item in (*outputs, *given.logs())):
        yield problem("addNthFieldToLFN", stated, "needs an output or a log whose name has ${MIDDLENAME}")
    if not any(item.param_type == "input" for item in given.job_parameters):
        yield problem("addNthFieldToLFN", stated, "needs an item of param_type 'input', whose names have fields")


def _most_cores(given: TaskParameters) -> Iterable[FieldProblem]:
    if given.max_core_count is not None and (given.core_count or 1) > given.max_core_count:
        yield problem("maxCoreCount", given.max_core_count, f"allowed: coreCount ({given.core_count}) or more")


def _most_failures(given: TaskParameters) -> Iterable[FieldProblem]:
    if given.max_failure and given.max_attempt and given.max_failure > given.max_attempt:
        yield problem("maxFailure", given.max_failure, f"allowed: maxAttempt ({given.max_attempt}) or less")


def _files_of_a_job(given: TaskParameters) -> Iterable[FieldProblem]:
    if given.n_files_per_job and given.n_max_files_per_job and given.n_files_per_job > given.n_max_files_per_job:
        yield problem("nFilesPerJob", given.n_files_per_job, f"allowed: nMaxFilesPerJob ({given.n_max_files_per_job})")


def _growing_boundaries(given: TaskParameters) -> Iterable[FieldProblem]:
    if given.group_boundary in (3, 4) and given.run_until_closed:
        why = "allowed together with runUntilClosed: 1, 2 (files of a boundary may come after its job was made)"
        yield problem("groupBoundaryID", given.group_boundary, why)


def _one_unit_of_memory(given: TaskParameters) -> Iterable[FieldProblem]:
    if given.ram_unit and given.ram_count_unit and given.ram_unit != given.ram_count_unit:
        yield problem("ramCountUnit", given.ram_count_unit, f"allowed: the same as ramUnit ({given.ram_unit})")


def _short_input(given: TaskParameters) -> Iterable[FieldProblem]:
    per_job, per_file = given.n_events_per_job, given.events_per_file()
    if given.skip_short_input and not (per_job and per_file and per_file >= per_job):
        why = "needs nEventsPerJob, and nEventsPerInputFile of as many or more: a file is short of whole jobs"
        yield problem("skipShortInput", True, why)


def _short_output(given: TaskParameters) -> Iterable[FieldProblem]:
    if given.skips_short_output and not (given.n_events_per_job or given.n_files_per_job):
        yield problem("skipShortOutput", True, "needs nEventsPerJob or nFilesPerJob: a job is short of that")


def _order(given: TaskParameters) -> Iterable[FieldProblem]:
    if given.order_input_by and not given.n_events_per_job:
        yield problem("orderInputBy", given.order_input_by, "needs nEventsPerJob: files are aligned to jobs of so many")
    if given.order_input_by and (given.order_by_lb or given.group_boundary):
        why = "not allowed together with orderByLB or groupBoundaryID, which ask for another order"
        yield problem("orderInputBy", given.order_input_by, why)


def _copied_or_read(given: TaskParameters) -> Iterable[FieldProblem]:
    if given.copies_to_scratch and given.allow_input_lan == "only":
        yield problem(
            "useLocalIO", True, "not allowed together with allowInputLAN = only: input is copied or it is not"
        )


def _dynamic_number_of_events(given: TaskParameters) -> Iterable[FieldProblem]:
    """minGranularity leaves the number of events of a job to its queue: nothing else may fix it."""
    granularity = given.granularity()
    if not granularity:
        return
    field = "minGranularity" if given.min_granularity else "nEventsPerRange"
    if given.n_events_per_range not in (None, granularity):
        yield problem("nEventsPerRange", given.n_events_per_range, f"allowed: minGranularity ({granularity})")
    for name, value in (
        ("nEventsPerJob", given.n_events_per_job),
        ("tgtNumEventsPerJob", given.target_events_per_job),
    ):
        if value:
            yield problem(
                name, value, f"not allowed together with {field}: the queue decides how many events a job has"
            )
    if not any(item.param_type == "input" for item in given.job_parameters):
        yield problem(field, granularity, "needs an item of param_type 'input': ranges are cut from its files")
    if given.max_events_per_job and given.max_events_per_job < granularity:
        yield problem("maxEventsPerJob", given.max_events_per_job, f"allowed: {field} ({granularity}) or more")


def _item(name: str, item: Item) -> Iterable[FieldProblem]:
    """One item of jobParameters."""
    if item.type == "constant":
        return
    if item.param_type is None:
        yield problem(f"{name}.param_type", None, "is needed where type is 'template'")
    elif item.param_type in FINAL_OUTPUT_TYPES:
        yield from _output(name, item)
    elif item.param_type == "input":
        yield from _input_item(name, item)
    yield from _attributes(name, item)


def _attributes(name: str, item: Item) -> Iterable[FieldProblem]:
    """Those that the item may have; a log needs no param_type."""
    try:
        item.dataset_attributes()
    except ValueError as error:
        yield problem(f"{name}.attributes", item.attributes, str(error))


def _input_item(name: str, item: Item) -> Iterable[FieldProblem]:
    if not item.datasets():
        yield problem(f"{name}.dataset", item.dataset, "is needed where param_type is 'input'")
    if not item.hidden and not PLACEHOLDER.search(item.value):
        yield problem(f"{name}.value", item.value, "allowed: a text with a placeholder such as ${IN}")
    yield from _dataset_names(name, item)


def _dataset_names(name: str, item: Item) -> Iterable[FieldProblem]:
    for dataset, full in zip(item.datasets(), (item.dataset or "").split(","), strict=False):
        if is_unknown_yet(dataset):
            continue  # found wrong later where there is no pre-processing job
        limit = MAX_DATASET_NAME - len(UNMERGED_PREFIX) - (MAX_NUMBERS if item.container else 0)
        if len(dataset) > limit:
            yield problem(f"{name}.dataset", dataset, f"allowed: at most {limit} characters")
        if len(scope_of(full)) > MAX_SCOPE:
            yield problem(f"{name}.dataset", full, f"allowed: a scope of at most {MAX_SCOPE} characters")
        plain = dataset.replace(WILDCARD, "") if item.param_type == "input" else dataset
        if not is_catalogue_name(plain):
            yield problem(f"{name}.dataset", dataset, f"allowed: {CATALOGUE_NAMES}")
        scope, colon, _ = full.strip().rpartition(":")
        if colon and not is_scope(scope):
            yield problem(f"{name}.dataset", full, f"allowed: {SCOPES}")


def _output(name: str, item: Item) -> Iterable[FieldProblem]:
    """An output or a log: one dataset, and a file name in which a number makes each file's name its own."""
    if len(item.datasets()) != 1:
        yield problem(f"{name}.dataset", item.dataset, "allowed: exactly one dataset")
    yield from _dataset_names(name, item)
    template, limit = item.file_name_template(), MAX_FILE_TEMPLATE - len(UNMERGED_PREFIX)
    if item.is_by_expression:
        yield from expression_problems(f"{name}.value", item, limit)
        return
    if not SERIAL_NUMBER.search(template):
        yield problem(f"{name}.value", item.value, "allowed: a file name with ${SN} or ${SN/P}, after the last '='")
    if len(template) > limit:
        yield problem(f"{name}.value", template, f"allowed: a file name of at most {limit} characters")
    if "/" in template.replace("${SN/P}", "") or any(one.isspace() for one in template):
        yield problem(f"{name}.value", template, "allowed: a file name without slashes and blanks")
    elif template and not is_catalogue_name(template):
        yield problem(f"{name}.value", template, f"allowed: a file name of {CATALOGUE_NAMES}")


def _streams(given: TaskParameters) -> Iterable[FieldProblem | None]:
    """Each input has a stream of its own, with a name that fits."""
    seen: set[str] = set()
    inputs = [(i, item) for i, item in enumerate(given.job_parameters) if item.param_type == "input"]
    for position, (index, item) in enumerate(inputs):
        yield None
        stream = item.stream("IN" if position == 0 else f"IN{position + 1}")
        if len(stream) > MAX_STREAM:
            yield problem(f"jobParameters.{index}.value", stream, f"allowed: a placeholder of at most {MAX_STREAM}")
        if stream in seen:
            yield problem(f"jobParameters.{index}.value", item.value, f"the placeholder ${{{stream}}} is used twice")
        seen.add(stream)


#: what is asked between fields, in the order in which problems are told
_CHECKS: tuple[Check, ...] = (
    *_UNITS, _architecture, _input, _most_cores, _most_failures, _files_of_a_job, _growing_boundaries,
    _dynamic_number_of_events, _short_input, _short_output, _order, _copied_or_read, _one_unit_of_memory,
    _middle_names, unknown_yet_problems, event_service_problems, point_problems, job_xml_problems, segment_problems,
    by_expression_problems, _name,
)  # fmt: skip
