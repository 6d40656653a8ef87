"""Whether jobs can fill in the placeholders of a task: asked of the code that fills them in.

It gets sample values. Source: JEDI, task parameters (placeholders).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from services.task_definition.tasks.policy.preprocessing import is_unknown_yet
from services.task_definition.tasks.policy.task_parameters.table import TaskParameters
from services.task_definition.tasks.policy.task_spec_items import Item
from shared.model.batches import batches
from shared.model.command_line import (
    TEXTS_OF_JOBS,
    TEXTS_OF_SEGMENTS,
    TEXTS_OF_TASKS,
    TEXTS_OF_XML,
    UnresolvedPlaceholder,
    Values,
    around_serial,
    fill,
    placeholder_texts,
)
from shared.model.dataset_types import FINAL_OUTPUT_TYPES, LIBRARY_STREAM, MERGE_LOG_STREAM, PFN_STREAM
from shared.model.placeholders import unusable_placeholders
from shared.model.problems import FieldProblem
from shared.model.task_spec_problems import problem

_SAMPLE = "1"
_NAMES_IN_A_STEP = 500


def placeholder_problems(given: TaskParameters) -> Iterator[FieldProblem | None]:
    """Texts that jobs could not fill in, with their place; None between two items, as a place to rest."""
    library = {LIBRARY_STREAM: [_SAMPLE]} if given.build_spec is not None else {}
    special = (*(TEXTS_OF_XML if given.load_xml else ()), *(TEXTS_OF_SEGMENTS if given.segment_specs else ()))
    texts, texts_of_task = (dict.fromkeys(names, _SAMPLE) for names in ((*TEXTS_OF_JOBS, *special), TEXTS_OF_TASKS))
    normal = Values(_streams(given) | library, texts, dict.fromkeys(_inputs(given), "dataset"))
    for index, item in enumerate(given.job_parameters):
        yield None
        if not item.es_only:
            yield from _told(f"jobParameters.{index}.value", item.value, normal)
        if item.param_type in FINAL_OUTPUT_TYPES:
            yield from _name_told(f"jobParameters.{index}.value", item, texts_of_task)
    for field, item in given.named_logs():
        yield from _name_told(f"{field}.value", item, texts_of_task)
    if given.merge_spec is not None and given.merge_spec.job_parameters:
        merged = Values(_merge_streams(given) | library, normal.texts, {})
        yield from _told("mergeSpec.jobParameters", given.merge_spec.job_parameters, merged)
    if given.esmerge_spec is not None and given.esmerge_spec.job_parameters:
        merged = Values(_streams(given) | _merge_streams(given), normal.texts, normal.datasets)
        yield from _told("esmergeSpec.jobParameters", given.esmerge_spec.job_parameters, merged)
    if given.build_spec is not None:
        built = Values({"IN": [_SAMPLE], "OUT": [_SAMPLE]}, normal.texts, {})
        yield from _told("buildSpec.jobParameters", given.build_spec.job_parameters, built)
    if given.prepro_spec is not None:
        yield from _told("preproSpec.jobParameters", given.prepro_spec.job_parameters, Values({}, normal.texts, {}))


def unknown_yet_problems(given: TaskParameters) -> Iterable[FieldProblem | None]:
    """Find datasets and files that a pre-processing job gives, of a task without one; None ends a step."""
    allowed = "needs preproSpec: the job that finds out its value"
    for index, item in enumerate(given.job_parameters if given.prepro_spec is None else ()):
        for field, values in (("dataset", item.datasets()), ("files", item.files or ())):
            for some in batches(values, _NAMES_IN_A_STEP):
                yield from (
                    problem(f"jobParameters.{index}.{field}", one, allowed) for one in some if is_unknown_yet(one)
                )
                yield None


def _told(field: str, text: str, values: Values) -> Iterable[FieldProblem]:
    """What is wrong with one text: each placeholder that cannot be filled in."""
    found = [problem(field, text, why) for why in unusable_placeholders(text)]
    for one in () if found else placeholder_texts(text):
        try:
            fill(one, values)
        except UnresolvedPlaceholder as error:
            if "by zero" not in str(error):  # that depends on the value
                found.append(problem(field, text, str(error)))
    return found


def _name_told(field: str, item: Item, texts: Mapping[str, str]) -> Iterable[FieldProblem]:
    """A file's name knows its serial number and what is the same for all jobs of the task."""
    try:
        around_serial(item.file_name_template(), 1, texts)
    except UnresolvedPlaceholder as error:
        yield problem(field, item.value, str(error))


def _inputs(given: TaskParameters) -> list[str]:
    """Streams of input: the first is called IN where its text names no other."""
    items = [item for item in given.job_parameters if item.param_type == "input"]
    if given.pfn_list is not None:
        return [PFN_STREAM]
    return [item.stream("IN" if place == 0 else f"IN{place + 1}") for place, item in enumerate(items)]


def _outputs(given: TaskParameters) -> list[str]:
    """OUTPUT0, OUTPUT1, ... and LOG0, ...; with loadXML each job names outputs of its own."""
    n_outputs = 0 if given.load_xml else sum(item.param_type == "output" for item in given.job_parameters)
    n_logs = sum(item.param_type == "log" for item in given.job_parameters) + len(given.logs())
    return [*(f"OUTPUT{n}" for n in range(n_outputs)), *(f"LOG{n}" for n in range(n_logs))]


def _streams(given: TaskParameters) -> dict[str, list[str]]:
    return {name: [_SAMPLE] for name in (*_inputs(given), *_outputs(given))}


def _merge_streams(given: TaskParameters) -> dict[str, list[str]]:
    outputs = _outputs(given)
    own_log = () if given.log_merge is None else (MERGE_LOG_STREAM,)
    return {name: [_SAMPLE] for name in (*outputs, *(f"TRN_{name}" for name in outputs), *own_log)}
