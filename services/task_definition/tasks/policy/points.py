"""What hyper-parameter optimisation asks of a task, and the split rules that follow.

Source: PanDA client, phpo: noInput, nEvents evaluations at once, maxNumJobs jobs, totNumJobs points; iDDS,
HyperParameterOptimization: points are proposed in generations, and a job is given the number of a point.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from services.task_definition.tasks.policy.event_service import states_event_service
from services.task_definition.tasks.policy.task_parameters.table import TaskParameters, json_name
from shared.model.problems import FieldProblem
from shared.model.task_spec_problems import problem

#: evaluations at once, as many as jobs of the event service may have the same input
MOST_AT_ONCE = 100
_NEEDS_WORKFLOW = ("hpo_request_data", "most_jobs", "n_points")
#: what a search has no use for: its one unit of input is read by all of its jobs
_CONTRADICT = ("merge_output", "build_spec", "load_xml", "pfn_list", "cloning", "respects_lumi_block")


def rules_of_search(given: TaskParameters, *, n_at_once: int) -> dict[str, Any]:
    """The split rules of a search, by attribute; none for other tasks.

    They say how many points, jobs, and jobs at once.

    Other tasks have none. The task numbers its points itself, from 1 on, in generations of num_points_per_generation
    (all at once where it says no number); the payload asks the optimiser what a point is.
    """
    if not given.evaluates_points:
        return {}
    n_points, request = _points(given), given.hpo_request_data
    rules: dict[str, Any] = {"skip_scout": True, "n_consumers": n_at_once, "n_points": n_points}
    if request is not None:
        rules["points_per_generation"] = request.num_points_per_generation or n_points
        rules["min_unevaluated_points"] = request.min_unevaluated_points or None
    return rules


def _points(given: TaskParameters) -> int | None:
    """totNumJobs and max_points; the smaller where both are said."""
    asked = None if given.hpo_request_data is None else given.hpo_request_data.max_points
    return min((one for one in (given.n_points, asked) if one is not None), default=None)


def point_problems(given: TaskParameters) -> Iterator[FieldProblem]:
    """What contradicts a search of hyper-parameters, or says how to search where nothing is searched."""
    if not given.evaluates_points:
        for name in _NEEDS_WORKFLOW:
            if getattr(given, name) is not None:
                yield problem(
                    json_name(name), None, "needs hpoWorkflow = true: it is about a search of hyper-parameters"
                )
        return
    if given.hpo_request_data is None:
        told = "is needed with hpoWorkflow: points that an optimiser adds by itself are not taken by this version"
        yield problem("hpoRequestData", None, told)
    if not given.no_input:
        yield problem("noInput", given.no_input, "hpoWorkflow needs noInput = true: jobs are given points, no files")
    for name in _CONTRADICT:
        value = getattr(given, name)
        if value is not None and value is not False:
            stated = value if isinstance(value, str | int) else None
            yield problem(json_name(name), stated, "not allowed together with hpoWorkflow")
    if given.segment_specs is not None or given.segmented_work:
        told = (
            "not allowed together with hpoWorkflow: how points are shared among segments is not known to this version"
        )
        yield problem("segmentSpecs", None, told)
    if states_event_service(given):
        yield problem("nEventsPerWorker", given.events_per_range, "not with hpoWorkflow: its ranges are points")
    yield from _numbers(given)


def _numbers(given: TaskParameters) -> Iterator[FieldProblem]:
    request = given.hpo_request_data
    n_at_once = -(-(given.n_events or 1) // (given.n_events_per_job or given.n_events or 1))
    if max(n_at_once, given.n_files or 1) > MOST_AT_ONCE:
        told = f"more than {MOST_AT_ONCE} evaluations at once; allowed: nEvents / nEventsPerJob and nFiles up to that"
        yield problem("nEvents", given.n_events, told)
    if request is None:
        return
    steering = request.executable or request.sandbox
    if steering is not None:
        field = "executable" if request.executable else "sandbox"
        told = (
            "the steering container, which proposes points by the losses of those before, is not run by this version: "
            "its jobs would wait for points; allowed: a payload that knows itself what point 1, 2, ... is"
        )
        yield problem(f"hpoRequestData.{field}", steering, told)
    low, size = request.min_unevaluated_points or 0, request.num_points_per_generation
    if size is not None and low >= size:
        told = f"must be less than num_points_per_generation ({size}): a generation has at least one new point"
        yield problem("hpoRequestData.min_unevaluated_points", low, told)
    if size is None and low:
        yield problem("hpoRequestData.min_unevaluated_points", low, "needs num_points_per_generation")
