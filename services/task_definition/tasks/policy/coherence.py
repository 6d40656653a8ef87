"""What makes a task of well-formed fields run something else than its owner means, or nothing.

Each would be accepted, make jobs, and lose or mix up what they write. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from services.task_definition.tasks.policy.shares import ShareNode
from services.task_definition.tasks.policy.task_parameters.table import TaskParameters
from services.task_definition.tasks.policy.task_spec import TaskSpec
from shared.model.analysis import ANALYSIS, is_analysis
from shared.model.dataset_types import FINAL_OUTPUT_TYPES
from shared.model.expression import parse_expression
from shared.model.problems import FieldProblem
from shared.model.task_spec_problems import problem


def incoherent(spec: TaskSpec) -> Iterator[FieldProblem]:
    """Every such problem of a task."""
    given = spec.parameters
    if not given.trans_path:
        yield problem("transPath", None, "is needed: what pilots run; allowed: the name or address of a transformation")
    if given.merge_output and not (given.merge_spec and given.merge_spec.job_parameters):
        needed = "is needed where mergeOutput is true: merge jobs run its command line, not that of the other jobs"
        yield problem("mergeSpec.jobParameters", None, needed)
    if given.task_type != ANALYSIS and is_analysis(None, given.prod_source_label):
        allowed = f"allowed with prodSourceLabel {given.prod_source_label!r}: {ANALYSIS!r}"
        yield problem("taskType", given.task_type, allowed)
    yield from _logs_among_outputs(given)


def _logs_among_outputs(given: TaskParameters) -> Iterable[FieldProblem]:
    """Logs in a dataset of outputs would be processed with them by whoever reads the dataset."""
    outputs = {
        name: f"jobParameters.{index}.dataset"
        for index, item in enumerate(given.job_parameters)
        if item.param_type in FINAL_OUTPUT_TYPES and item.param_type != "log"
        for name in item.datasets()
    }
    items = [(f"jobParameters.{i}", one) for i, one in enumerate(given.job_parameters) if one.param_type == "log"]
    for name, item in (*items, *given.named_logs()):
        for dataset in item.datasets():
            if dataset in outputs:
                told = f"is the dataset of an output ({outputs[dataset]}); allowed: one of its own"
                yield problem(f"{name}.dataset", dataset, told)


def no_share_takes(spec: TaskSpec, nodes: Sequence[ShareNode]) -> list[FieldProblem]:
    """Why a task that names no share is in none: by its label, where no share takes that."""
    label = spec.parameters.prod_source_label
    parents = {node.parent for node in nodes}
    wanted = [(node.expressions or {}).get("prod_source_label") for node in nodes if node.name not in parents]
    if any(one is None or parse_expression(one).matches_start_of(label) for one in wanted):
        return [problem("gshare", None, "no leaf of the shares matches this task")]
    known = ", ".join(sorted({one for one in wanted if one is not None}))
    return [problem("prodSourceLabel", label, f"no share takes this label; allowed: {known}")]
