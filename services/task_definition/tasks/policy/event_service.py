"""Whether a task uses the event service, and in ranges of how many events (JEDI: column EVENTSERVICE)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from services.task_definition.tasks.policy.task_parameters.table import TaskParameters, json_name
from shared.brokerage.draw import uniform_of
from shared.model.problems import FieldProblem
from shared.model.task_spec_problems import problem

#: events of a range where a task that is converted states none
EVENTS_OF_CONVERTED = 1
JOB_CLONING = 3
#: parameters that hold for copies of a job, too
_OF_COPIES = ("n_consumers", "n_sites_per_job")
#: parameters that hold for points of hyper-parameters, too
_OF_POINTS = ("range_attempts", "attempts_only_of_failed")
_NEEDS_RANGES = (
    "n_consumers", "n_sites_per_job", "range_attempts", "consumer_attempts", "keeps_processed_events",
    "attempts_only_of_failed", "resurrects_consumers", "n_jumbo_jobs", "n_jumbo_jobs_per_site", "esmerge_spec",
    "is_fine_grained", "merges_at_store",
)  # fmt: skip


def events_per_range(given: TaskParameters) -> int | None:
    """Events of a range, None for a task without event service.

    A task says so with nEventsPerWorker or esConvertible; with esFraction that part of all tasks does, drawn from the
    task's name, so that the same task is always drawn the same.

    Example: esFraction 0.25 and no nEventsPerWorker: one task in four uses it, one event in a range.
    """
    n_events = given.events_per_range
    if given.es_fraction is not None and not given.es_convertible:
        drawn = uniform_of(int.from_bytes(hashlib.sha256(given.task_name.encode()).digest()[:4], "big"))
        return (n_events or EVENTS_OF_CONVERTED) if drawn < given.es_fraction else None
    return n_events or (EVENTS_OF_CONVERTED if given.es_convertible else None)


def states_event_service(given: TaskParameters) -> bool:
    """Whether a task asks for the event service, also where it may be drawn not to use it (esFraction)."""
    return bool(given.events_per_range or given.es_convertible or given.es_fraction is not None)


def use_jumbo(given: TaskParameters) -> str | None:
    """Column USEJUMBO of a new task: W (waits for a jumbo job) where it has nJumboJobs and no site.

    Example: nJumboJobs 2 without a site: W; with a site: None, whatever nJumboJobs is.
    """
    wanted = given.n_jumbo_jobs and events_per_range(given) is not None and not given.site
    return "W" if wanted else None


def event_service_column(given: TaskParameters) -> int:
    """Column EVENTSERVICE of a new task: 1 event service, 3 job cloning (the flag of its jobs), else 0."""
    return JOB_CLONING if given.cloning is not None else int(events_per_range(given) is not None)


def event_service_problems(given: TaskParameters) -> Iterable[FieldProblem]:
    """What contradicts the event service, or says how to use it where it is not used."""
    if given.cloning is not None:
        yield from _cloning_problems(given)
        return
    if not states_event_service(given):
        for field, value in _about_ranges(given):
            if not (given.evaluates_points and field in _OF_POINTS):
                yield problem(
                    json_name(field), value, "needs nEventsPerWorker: without it a task uses no event service"
                )
        return
    for field in ("n_consumers", "n_sites_per_job", "n_jumbo_jobs") if given.is_fine_grained else ():
        if (getattr(given, field) or 1) > 1 or (field == "n_jumbo_jobs" and given.n_jumbo_jobs):
            yield problem(json_name(field), getattr(given, field), "not with fineGrainedProc, where one job has all")
    if given.merge_output:
        yield problem("mergeOutput", True, "not with nEventsPerWorker: the event service merges what its jobs wrote")
    if given.no_input or not any(item.param_type == "input" for item in given.job_parameters):
        yield problem("nEventsPerWorker", given.events_per_range, "needs input: ranges are those of its files")
    if given.build_spec is not None:
        yield problem("buildSpec", None, "not with nEventsPerWorker: merge jobs of the event service read no library")


def _about_ranges(given: TaskParameters) -> Iterable[tuple[str, Any]]:
    """What a task states of how ranges are handed out, by attribute."""
    stated = [field for field in _NEEDS_RANGES if field in given.model_fields_set]
    return [(field, value) for field in stated if (value := getattr(given, field))]


def _cloning_problems(given: TaskParameters) -> Iterable[FieldProblem]:
    """Copies of whole jobs: no ranges of events, no merges, and no library that only one of their sites has."""
    stated = "not with useJobCloning: "
    if states_event_service(given):
        yield problem("useJobCloning", given.cloning, "not with nEventsPerWorker: ranges have no copies")
    for field, value in _about_ranges(given):
        if field not in _OF_COPIES:
            yield problem(json_name(field), value, f"{stated}copies process no ranges of events")
    if given.merge_output:
        yield problem("mergeOutput", True, f"{stated}outputs of copies are not merged")
    if given.build_spec is not None:
        yield problem("buildSpec", None, f"{stated}its library is at one site")
    if given.no_input or not any(item.param_type == "input" for item in given.job_parameters):
        yield problem("useJobCloning", given.cloning, "needs input: the first copy takes it")
