"""What must hold between the XML that describes jobs and the rest of a task (PanDA client: loadXML)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from services.task_definition.data.policy.allowed_names import is_catalogue_name
from services.task_definition.tasks.policy.event_service import states_event_service
from services.task_definition.tasks.policy.task_parameters.table import TaskParameters, json_name
from services.task_definition.tasks.policy.task_spec_items import Item
from shared.model.job_xml import BadJobXml, JobXml, XmlJob, read_job_xml
from shared.model.names import CATALOGUE_NAMES, MAX_FILE_NAME, bare_name
from shared.model.problems import FieldProblem
from shared.model.task_spec_problems import problem

_SHOWN = 60
#: what else would cut the input, choose files of it, or read outputs that each job names for itself
_CONTRADICT = (
    "n_files", "n_events", "n_files_per_job", "n_events_per_job", "target_events_per_job", "min_granularity",
    "n_events_per_range", "respects_lumi_block", "order_by_lb", "releases_whole_lumi_blocks", "order_input_by",
    "skip_short_input", "skips_short_output", "skip_files_used_by", "run_until_closed", "add_nth_field_to_lfn",
    "merge_output", "pfn_list", "no_input",
)  # fmt: skip


def job_xml_problems(given: TaskParameters) -> Iterator[FieldProblem]:
    """Everything that is wrong with loadXML, and what is not allowed beside it."""
    if given.load_xml is None:
        return
    for name in _CONTRADICT:
        value = getattr(given, name)
        if value is not None and value is not False:
            yield problem(
                json_name(name), value, "not allowed together with loadXML, which says what each job reads and writes"
            )
    if given.group_boundary not in (None, 4):
        yield problem("groupBoundaryID", given.group_boundary, "allowed together with loadXML: 4")
    if states_event_service(given):
        yield problem("nEventsPerWorker", given.events_per_range, "not allowed together with loadXML")
    try:
        described = read_job_xml(given.load_xml)
    except BadJobXml as error:
        yield problem("loadXML", given.load_xml[:_SHOWN], str(error))
        return
    inputs = [item for item in given.job_parameters if item.param_type == "input"]
    if inputs:
        yield from _datasets(described, inputs)
    yield from _outputs(given, described)


def _datasets(described: JobXml, inputs: list[Item]) -> Iterable[FieldProblem]:
    """Datasets of the XML are those of the items; each job reads the first item's, the primary one."""
    known = {bare_name(name) for item in inputs for name in item.datasets()}
    for name in sorted(described.datasets - known):
        allowed = f"allowed: datasets of items of param_type 'input': {', '.join(sorted(known))}"
        yield problem("loadXML", name, f"is a dataset that no item names; {allowed}")
    first = [bare_name(name) for name in inputs[0].datasets()]
    if len(first) != 1:
        yield problem("loadXML", described.primary, f"the first input has {len(first)} datasets; allowed: one")
        return
    if described.primary not in (None, *first):
        yield problem("loadXML", described.primary, f"is primary; allowed: the dataset of the first input, {first[0]}")
    for job in described.jobs:
        if first[0] not in job.files and first[0] in known:
            yield problem("loadXML", f"job {job.number}", f"names no file of {first[0]}; allowed: one or more")
            return


def _outputs(given: TaskParameters, described: JobXml) -> Iterable[FieldProblem]:
    """All outputs go to the dataset of the one item; ${XML_OUTMAP} says how they are called."""
    items = [(n, item) for n, item in enumerate(given.job_parameters) if item.param_type == "output"]
    for index, item in items:
        if not item.hidden:
            yield problem(f"jobParameters.{index}.hidden", item.hidden, "allowed with loadXML: true; use ${XML_OUTMAP}")
    writes = any(job.common_outputs or job.own_outputs for job in described.jobs)
    if len(items) != 1 and (writes or items):
        yield problem("jobParameters", len(items), "items of param_type 'output'; allowed with loadXML: one, for all")
        return
    template = items[0][1].file_name_template() if items else ""
    seen: set[str] = set()
    for job in described.jobs:
        # names of what all jobs write differ by the prefix alone
        common = () if job.prefix in seen else job.common_outputs
        seen.add(job.prefix)
        for why in _bad_names(job, (*common, *job.own_outputs), template):
            yield problem("loadXML", f"job {job.number}", why)
            return


def _bad_names(job: XmlJob, outputs: Iterable[str], template: str) -> Iterable[str]:
    for output in outputs:
        name = job.name_after(output)
        if not output or "/" in name or any(one.isspace() for one in name) or not is_catalogue_name(name.strip(".")):
            yield f"writes {output!r} under a name that ends with {name!r}; allowed: {CATALOGUE_NAMES}"
        elif len(template) + len(name) > MAX_FILE_NAME:
            yield f"writes {output!r} under a name of more than {MAX_FILE_NAME} characters"
