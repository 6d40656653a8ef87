"""Whether a task uses the event service, and in ranges of how many events (JEDI: column EVENTSERVICE)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from services.task_definition.policy.task_parameters.table import TaskParameters
from shared.brokerage.draw import uniform_of
from shared.model.problems import FieldProblem
from shared.model.task_spec_problems import problem

#: events of a range where a task that is converted states none
EVENTS_OF_CONVERTED = 1
_NEEDS_RANGES = {
    "n_es_consumers": "nEsConsumers", "n_sites_per_job": "nSitesPerJob", "max_attempt_es": "maxAttemptES",
    "max_attempt_es_job": "maxAttemptEsJob", "not_discard_events": "notDiscardEvents",
    "dec_att_on_failed_es": "decAttOnFailedES", "resurrect_consumers": "resurrectConsumers",
    "n_jumbo_jobs": "nJumboJobs", "max_jumbo_per_site": "maxJumboPerSite", "esmerge_spec": "esmergeSpec",
}  # fmt: skip


def events_per_range(given: TaskParameters) -> int | None:
    """Events of a range, None for a task without event service.

    A task says so with nEventsPerWorker or esConvertible; with esFraction that part of all tasks does, drawn from the
    task's name, so that the same task is always drawn the same.

    Example: esFraction 0.25 and no nEventsPerWorker: one task in four uses it, one event in a range.
    """
    n_events = given.n_events_per_worker
    if given.es_fraction is not None and not given.es_convertible:
        drawn = uniform_of(int.from_bytes(hashlib.sha256(given.task_name.encode()).digest()[:4], "big"))
        return (n_events or EVENTS_OF_CONVERTED) if drawn < given.es_fraction else None
    return n_events or (EVENTS_OF_CONVERTED if given.es_convertible else None)


def states_event_service(given: TaskParameters) -> bool:
    """Whether a task asks for the event service, also where it may be drawn not to use it (esFraction)."""
    return bool(given.n_events_per_worker or given.es_convertible or given.es_fraction is not None)


def use_jumbo(given: TaskParameters) -> str | None:
    """Column USEJUMBO of a new task: W (waits for a jumbo job) where it has nJumboJobs and no site.

    Example: nJumboJobs 2 without a site: W; with a site: None, whatever nJumboJobs is.
    """
    wanted = given.n_jumbo_jobs and events_per_range(given) is not None and not given.site
    return "W" if wanted else None


def event_service_problems(given: TaskParameters) -> Iterable[FieldProblem]:
    """What contradicts the event service, or says how to use it where it is not used."""
    if not states_event_service(given):
        for field, name in _NEEDS_RANGES.items():
            value = getattr(given, field)
            if value:
                yield problem(name, value, "needs nEventsPerWorker: without it a task uses no event service")
        return
    if given.merge_output:
        yield problem("mergeOutput", True, "not with nEventsPerWorker: the event service merges what its jobs wrote")
    if given.no_input or not any(item.param_type == "input" for item in given.job_parameters):
        yield problem("nEventsPerWorker", given.n_events_per_worker, "needs input: ranges are those of its files")
    if given.build_spec is not None:
        yield problem("buildSpec", None, "not with nEventsPerWorker: merge jobs of the event service read no library")
