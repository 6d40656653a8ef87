"""Plans output and log datasets of a task, their file names and its jobs' command lines.

Source: JEDI, task params.

With mergeOutput each final dataset has an unmerged one beside it: normal jobs write there, merge jobs read it and write
the final one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from services.task_definition.tasks.policy.event_service import events_per_range
from services.task_definition.tasks.policy.task_spec import TaskSpec
from services.task_definition.tasks.policy.task_spec_items import Item
from shared.brokerage.output_places import DISTRIBUTED
from shared.model.dataset_types import FINAL_OUTPUT_TYPES, LIBRARY_STREAM, LOG_TYPES, MERGE_LOG_STREAM
from shared.model.names import UNMERGED_PREFIX, bare_name, scope_of

_ES_MERGE = {
    "es_merge": re.compile(r"<PANDA_ESMERGE_JOBP>(.*?)</PANDA_ESMERGE_JOBP>", re.DOTALL),
    "es_merge_trans_path": re.compile(r"<PANDA_ESMERGE_TRF>(.*?)</PANDA_ESMERGE_TRF>", re.DOTALL),
}
TASK_ID_PLACEHOLDER = "$JEDITASKID"
UNMERGED_STORAGE = "TOMERGE"
#: what names of unmerged files end with where the task wants the mark there (umNameAtEnd)
_UNMERGED_END = f".{UNMERGED_PREFIX.rstrip('.')}"
#: the number of an attempt at the end of a name
_FIRST_ATTEMPT, _ATTEMPT = ".1", re.compile(r"\.\d+$")
DEFAULT_MERGE_PARAMETERS = "-r ./ -t ${TRN_OUTPUT:OUTPUT} ${TRN_LOG:LOG}"


@dataclass(frozen=True)
class OutputDatasetPlan:
    """One output dataset to insert; `key`: its name, `final`: the dataset an unmerged one is merged into."""

    name: str
    scope: str
    type: str
    stream: str
    container: str | None = None
    token: str | None = None
    destination: str | None = None
    attributes: dict[str, Any] = field(default_factory=dict)
    final: str | None = None


@dataclass(frozen=True)
class TemplatePlan:
    """How files of `dataset` are named; `stream` is the placeholder of the jobs that write them."""

    dataset: str
    file_name_template: str
    stream: str
    out_type: str
    first_serial: int = 1


@dataclass(frozen=True)
class OutputsPlan:
    """All outputs of a task; datasets in the order in which they must be inserted."""

    datasets: tuple[OutputDatasetPlan, ...]
    templates: tuple[TemplatePlan, ...]


def plan_outputs(spec: TaskSpec, task_id: int) -> OutputsPlan:
    """Datasets and templates of outputs (OUTPUT0, ...) and logs (LOG0, ...; LOG_MERGE of merge jobs)."""
    datasets: dict[str, OutputDatasetPlan] = {}
    templates: list[TemplatePlan] = []
    merged: list[tuple[OutputDatasetPlan, TemplatePlan]] = []
    for stream, kind, item in _streams(spec):
        final = _dataset(spec, item, kind, stream, task_id)
        datasets.setdefault(final.name, final)
        template = _with_task_id(_file_name(spec, item), task_id)
        templates.append(TemplatePlan(final.name, template, stream, final.type, 1 + (item.offset or 0)))
        if spec.parameters.merge_output and not item.merge_only:
            unmerged = _unmerged(final, kind)
            name = _unmerged_name(template, at_end=spec.parameters.um_name_at_end)
            plan = TemplatePlan(unmerged.name, name, stream, unmerged.type, 1 + (item.offset or 0))
            merged.append((unmerged, plan))
    # what merge jobs read begins with the logs, as in the field: they are what is merged, outputs go with them
    for unmerged, plan in sorted(merged, key=lambda pair: pair[0].type not in LOG_TYPES):
        datasets.setdefault(unmerged.name, unmerged)
        templates.append(plan)
    log_merge = spec.parameters.log_merge
    if log_merge is not None:
        kind = "output" if log_merge.param_type == "output" else "log"
        own_log = _dataset(spec, log_merge, kind, MERGE_LOG_STREAM, task_id)
        datasets.setdefault(own_log.name, own_log)
        template = _with_task_id(_file_name(spec, log_merge), task_id)
        templates.append(
            TemplatePlan(own_log.name, template, MERGE_LOG_STREAM, own_log.type, 1 + (log_merge.offset or 0))
        )
    if spec.parameters.build_spec is not None:
        library = _library(spec, task_id)
        datasets[library.name] = library
        name = f"{_own_name(spec)}.lib._${{SN}}.{task_id}.lib.tgz"
        templates.append(TemplatePlan(library.name, name, LIBRARY_STREAM, library.type))
    return OutputsPlan(tuple(datasets.values()), tuple(templates))


def command_lines(spec: TaskSpec, task_id: int) -> dict[str, Any]:
    """What `job_parameters_templates` holds: the texts of normal and merge jobs with placeholders left in."""
    # an expression stays in the text as it is
    items = [(stream, item) for stream, _, item in _streams(spec) if not item.is_by_expression]
    named = {item.file_name_template(): stream for stream, item in items}
    parts: list[str] = []
    uses_event_service = events_per_range(spec.parameters) is not None
    for item in spec.parameters.job_parameters:
        if item.hidden or (item.es_only and not uses_event_service):
            continue
        text = item.value
        if item.param_type in FINAL_OUTPUT_TYPES and not item.is_by_expression:
            text = text.replace(item.file_name_template(), f"${{{named[item.file_name_template()]}}}")
        parts.append(_with_streams(text, named) + (" " if item.padding else ""))
    merge = spec.parameters.merge_spec
    merged = (merge.job_parameters if merge else None) or DEFAULT_MERGE_PARAMETERS
    return {
        "normal": _with_task_id("".join(parts).strip(), task_id),
        "merge": _with_task_id(merged, task_id) if spec.parameters.merge_output else None,
        "merge_trans_path": merge.trans_path if merge else None,
        "source_url": spec.parameters.source_url,
        **_build_lines(spec, task_id),
        **_event_service_lines(spec, task_id),
        **preprocessing_lines(spec, task_id),
    }


def _file_name(spec: TaskSpec, item: Item) -> str:
    """How files of an output are named. In production a name says its attempt, as in the catalogues of the field.

    Example: "HITS.1._${SN}.root" of production becomes "HITS.1._${SN}.root.1"; one that ends with a number stays, and
    one to which jobs that are described in XML append their own names.
    """
    name = item.file_name_template()
    if (
        spec.is_analysis
        or item.is_by_expression
        or spec.parameters.load_xml is not None
        or _ATTEMPT.search(name)
        or name.endswith(_UNMERGED_END)
    ):
        return name
    return f"{name}{_FIRST_ATTEMPT}"


def _with_streams(text: str, named: Mapping[str, str]) -> str:
    """A text in which the names of outputs are their placeholders, so that each job writes what its outputs are called.

    Constants name outputs, too (prun -o): jobs whose outputs are merged write others. A name within a longer one stays.

    Example: "-o {'out.root': 'a._${SN/P}.out.root'}" becomes "-o {'out.root': '${OUTPUT0}'}".
    """
    for template in sorted((one for one in named if one in text), key=len, reverse=True):
        text = re.sub(rf"(?<![\w.$}}-]){re.escape(template)}(?![\w.-])", f"${{{named[template]}}}", text)
    return text


def _event_service_lines(spec: TaskSpec, task_id: int) -> dict[str, Any]:
    """How what event-service jobs wrote is merged, where the task says so: esmergeSpec, or tags in its command line."""
    merge = spec.parameters.esmerge_spec
    if merge is None:
        written = "".join(item.value for item in spec.parameters.job_parameters)
        said = {name: found.group(1) for name, tag in _ES_MERGE.items() if (found := tag.search(written))}
        return {name: _with_task_id(text, task_id) for name, text in said.items()}
    text = None if merge.job_parameters is None else _with_task_id(merge.job_parameters, task_id)
    return {"es_merge": text, "es_merge_trans_path": merge.trans_path}


def _build_lines(spec: TaskSpec, task_id: int) -> dict[str, Any]:
    """How build jobs are run: ${IN} is the archive of the sources, ${OUT} the library."""
    build = spec.parameters.build_spec
    if build is None:
        return {}
    text = build.job_parameters.replace("${IN}", build.archive_name).replace("${OUT}", f"${{{LIBRARY_STREAM}}}")
    return {
        "build": _with_task_id(text, task_id),
        "build_trans_path": build.trans_path,
        "build_label": build.prod_source_label,
    }


def preprocessing_lines(spec: TaskSpec, task_id: int) -> dict[str, Any]:
    """How the pre-processing job is run: it has no input and no output but what it returns."""
    given = spec.parameters.prepro_spec
    if given is None:
        return {}
    return {
        "preprocess": _with_task_id(given.job_parameters, task_id),
        "preprocess_trans_path": given.trans_path,
        "preprocess_label": given.prod_source_label,
    }


def _library(spec: TaskSpec, task_id: int) -> OutputDatasetPlan:
    """What build jobs make, a file for each site; the other jobs read it, and none of them owns it."""
    name = f"{_own_name(spec)}.lib.{task_id}"
    return OutputDatasetPlan(name, scope_of(name), "output", LIBRARY_STREAM, attributes={"reusable": True})


def _own_name(spec: TaskSpec) -> str:
    return bare_name(spec.parameters.task_name).rstrip("/")


def _streams(spec: TaskSpec) -> list[tuple[str, str, Item]]:
    """(stream, kind, item) of every output and log, numbered by kind."""
    items = [item for item in spec.parameters.job_parameters if item.param_type in FINAL_OUTPUT_TYPES]
    found: list[tuple[str, str, Item]] = []
    counts = dict.fromkeys(FINAL_OUTPUT_TYPES, 0)
    for item in [*items, *spec.parameters.logs()]:
        kind = "output" if item.param_type == "output" else "log"
        found.append((f"{kind.upper()}{counts[kind]}", kind, item))
        counts[kind] += 1
    return found


def _dataset(spec: TaskSpec, item: Item, kind: str, stream: str, task_id: int) -> OutputDatasetPlan:
    """The dataset of an item. In a container of an analysis task it is a template: each site gets one of its own.

    With stayOutputOnSite its files stay where they are written, whatever its item says.
    """
    container = None if item.container is None else bare_name(item.container)
    name, stays = _with_task_id(item.datasets()[0], task_id), spec.parameters.stay_output_on_site
    if container == name:  # the container needs a dataset in it
        name = f"{name}.{task_id}"
    return OutputDatasetPlan(
        name,
        scope_of(item.dataset or ""),
        f"tmpl_{kind}" if spec.is_analysis and container is not None else kind,
        stream,
        container,
        DISTRIBUTED if stays else item.token,
        None if stays else item.destination,
        item.dataset_attributes(),
    )


def _unmerged(final: OutputDatasetPlan, kind: str) -> OutputDatasetPlan:
    inherited = {name: value for name, value in final.attributes.items() if name == "allowNoOutput"}
    return OutputDatasetPlan(
        f"{UNMERGED_PREFIX}{final.name}",
        final.scope,
        f"trn_{kind}",
        f"TRN_{final.stream}",
        token=UNMERGED_STORAGE,
        attributes={"transient": True, **inherited},
        final=final.name,
    )


def _unmerged_name(template: str, *, at_end: bool) -> str:
    return f"{template}{_UNMERGED_END}" if at_end else f"{UNMERGED_PREFIX}{template}"


def _with_task_id(text: str, task_id: int) -> str:
    return text.replace(TASK_ID_PLACEHOLDER, str(task_id))
