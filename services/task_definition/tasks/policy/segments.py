"""What must hold between the segments of a task's input and the rest of its definition (segmentSpecs).

Source: PanDA client, phpo --segmentSpecFile; JEDI, task params (segmentedWork: jobs are generated for each segment).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from services.task_definition.tasks.policy.event_service import states_event_service
from services.task_definition.tasks.policy.task_parameters.table import TaskParameters, json_name
from shared.model.problems import FieldProblem
from shared.model.task_spec_problems import problem

#: what has no segments to keep apart, or would put files of several together
_CONTRADICT = (
    "load_xml", "pfn_list", "no_input", "respects_lumi_block", "order_by_lb", "releases_whole_lumi_blocks",
    "order_input_by", "add_nth_field_to_lfn", "merge_output",
)  # fmt: skip


def segment_problems(given: TaskParameters) -> Iterator[FieldProblem]:
    """Everything that is wrong with segmentSpecs, and what is not allowed beside it."""
    segments = given.segment_specs
    if given.evaluates_points:
        return  # a search has no segments, and says so
    if segments is None:
        if given.segmented_work:
            yield problem("segmentedWork", True, "needs segmentSpecs: the name and the files of each segment")
        return
    for name in _CONTRADICT:
        value = getattr(given, name)
        if value is not None and value is not False:
            yield problem(
                json_name(name), value, "not allowed together with segmentSpecs, whose jobs read one segment each"
            )
    if states_event_service(given):
        yield problem("nEventsPerWorker", given.events_per_range, "not allowed together with segmentSpecs")
    inputs = [item for item in given.job_parameters if item.param_type == "input"]
    if len(inputs) < 1 or len(inputs[0].datasets()) != 1:
        told = "needs a first item of param_type 'input' with one dataset: segments are parts of its files"
        yield problem("segmentSpecs", len(inputs), told)
    yield from _twice("names", [one.name for one in segments])
    yield from _twice("ids", [str(one.segment_id) for one in segments if one.segment_id is not None])
    yield from _twice("files", [name for one in segments for name in one.files])
    if 0 < sum(one.segment_id is not None for one in segments) < len(segments):
        yield problem("segmentSpecs", None, "some segments have an id; allowed: all or none, who then count from 0")


def _twice(what: str, values: list[str]) -> Iterator[FieldProblem]:
    for value, count in Counter(values).most_common(1):
        if count > 1:
            yield problem("segmentSpecs", value, f"is there {count} times; allowed: {what} that are there once")
