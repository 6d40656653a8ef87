"""Split rules of a task: the names of the task parameters, values checked once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from services.job_generation.policy.memory import RetryMemory
from shared.brokerage.smallest_job import MAX_FILES_PER_JOB, MAX_FILES_PER_MERGE_JOB, WHOLE_BOUNDARIES
from shared.model.split_precedence import MERGE_LOCAL_IO, is_set, rules_in_effect

MERGE_ATTEMPTS = 3
#: attempts of a range, and of the jobs of a job set, where a task does not say (JEDI: event service)
RANGE_ATTEMPTS, CONSUMER_ATTEMPTS = 10, 3
#: jobs that a search of hyper-parameters may make where a task does not say (PanDA client, phpo: maxEvaluationJobs)
JOBS_PER_POINT = 2
#: values of useJobCloning, and at how many sites copies are where a task states no number
CLONINGS = ("runonce", "storeonce")
SITES_OF_COPIES = 2
#: in column event_service of a task that uses it
EVENT_SERVICE = 1


class BadRule(ValueError):
    """A split rule whose value cannot be used; the message names rule, value and what is allowed."""


@dataclass(frozen=True)
class SplitRules:
    """Split rules; None means not set.

    Sizes in GB are 1024-based, `max_walltime_h` in hours, events and files are counts. `takes_input_at_once`
    (noInputPooling): a job is made as soon as some input is there, however few files. `loses_some`
    (allowPartialFinish): processed events are merged although others of their input failed for good.
    """

    n_files_per_job: int | None = None
    n_events_per_job: int | None = None
    n_events_per_input_file: int | None = None
    n_gb_per_job: float | None = None
    n_max_files_per_job: int | None = None
    target_events_per_job: int | None = None
    target_output_gb: float | None = None
    max_walltime_h: float | None = None
    max_events_per_job: int | None = None
    granularity: int | None = None
    group_boundary: int | None = None
    respects_lumi_block: bool = False
    merge_output: bool = False
    n_files_per_merge_job: int | None = None
    n_max_files_per_merge_job: int = MAX_FILES_PER_MERGE_JOB
    n_gb_per_merge_job: float | None = None
    n_events_per_merge_job: int | None = None
    merges_on_site: bool = False
    skip_scout: bool = False
    scout_success_rate: int | None = None
    respects_split_rule: bool = False
    copies_to_scratch: bool = False
    merges_from_scratch: bool | None = None
    runs_until_closed: bool = False
    uses_build: bool = False
    skips_short_output: bool = False
    takes_input_at_once: bool = False
    n_chunks_to_wait: int | None = None
    releases_whole_lumi_blocks: bool = False
    seed_offset: int = 0
    min_cpu_efficiency_percent: int | None = None
    retry_ram_offset_mb: int | None = None
    retry_ram_step_mb: int | None = None
    retry_ram_max_mb: int | None = None
    events_per_range: int | None = None
    n_consumers: int = 1
    n_sites_per_job: int = 1
    range_attempts: int = RANGE_ATTEMPTS
    consumer_attempts: int = CONSUMER_ATTEMPTS
    keeps_processed_events: bool = False
    resurrects_consumers: bool = False
    attempts_only_of_failed: bool = False
    merges_at_store: bool = False
    numbers_within_files: bool = False
    name_fields: tuple[int, ...] = ()
    names_from_files: bool = False
    cloning: str | None = None
    is_fine_grained: bool = False
    loses_some: bool = False
    evaluates_points: bool = False
    n_points: int | None = None
    most_jobs: int | None = None
    points_per_generation: int | None = None
    min_unevaluated_points: int = 0
    n_jumbo_jobs: int | None = None
    n_jumbo_jobs_per_site: int | None = None

    @property
    def uses_event_service(self) -> bool:
        """Whether events are handed out in ranges while jobs run."""
        return self.events_per_range is not None

    @property
    def jobs_end_others(self) -> bool:
        """Whether the end of a job may end others, whose outputs it merged or that had the same input."""
        return self.merge_output or self.uses_event_service or self.cloning is not None

    @property
    def jobs_for_input(self) -> int:
        """Jobs that are made at once for one job's input."""
        makes_several = self.uses_event_service or self.cloning is not None
        return self.n_consumers * self.n_sites_per_job if makes_several else 1

    @property
    def retry_memory(self) -> RetryMemory:
        """The task's own steps of memory for jobs that ran out of it."""
        return RetryMemory(self.retry_ram_offset_mb, self.retry_ram_step_mb, self.retry_ram_max_mb)

    @property
    def keeps_boundaries_whole(self) -> bool:
        """Whether a job takes one boundary, all of it.

        Groups 2 and 4 are split like 1 and 3: with at most one boundary in a job its outputs belong to that boundary
        anyway.
        """
        return self.group_boundary in WHOLE_BOUNDARIES

    @property
    def crosses_files(self) -> bool:
        """Ranges of events may be joined over the border of two files."""
        joins = self.target_events_per_job is not None or self.granularity is not None
        return joins and self.n_events_per_job is None

    @property
    def files_per_step(self) -> int:
        """How many master files are added at a time; one where events decide where a job ends."""
        by_events = self.n_events_per_job is not None or self.granularity is not None
        return 1 if by_events else self.n_files_per_job or 1

    @property
    def files_to_wait_for(self) -> int:
        """Master files that are waited for while more are to come, before jobs are made of some.

        Those of one job, or of as many as nChunksToWait says; one with noInputPooling.
        """
        if self.n_chunks_to_wait is None and self.takes_input_at_once:
            return 1
        return (self.n_files_per_job or 1) * (self.n_chunks_to_wait or 1)

    @property
    def max_files(self) -> int:
        """Master files of one job at most."""
        return self.n_files_per_job or self.n_max_files_per_job or MAX_FILES_PER_JOB


_COUNTS = {
    "n_files_per_job": "nFilesPerJob",
    "n_events_per_job": "nEventsPerJob",
    "n_events_per_input_file": "nEventsPerInputFile",
    "n_max_files_per_job": "nMaxFilesPerJob",
    "n_chunks_to_wait": "nChunksToWait",
    "target_events_per_job": "tgtNumEventsPerJob",
    "max_events_per_job": "maxEventsPerJob",
    "granularity": "dynamicNumEvents",
    "group_boundary": "groupBoundaryID",
    "n_files_per_merge_job": "nFilesPerMergeJob",
    "n_max_files_per_merge_job": "nMaxFilesPerMergeJob",
    "n_events_per_merge_job": "nEventsPerMergeJob",
    "min_cpu_efficiency_percent": "minCpuEfficiency",
    "retry_ram_offset_mb": "retryRamOffset",
    "retry_ram_step_mb": "retryRamStep",
    "retry_ram_max_mb": "retryRamMax",
    "events_per_range": "nEventsPerWorker",
    "n_consumers": "nEsConsumers",
    "n_sites_per_job": "nSitesPerJob",
    "range_attempts": "maxAttemptES",
    "consumer_attempts": "maxAttemptEsJob",
    "n_points": "totNumJobs",
    "most_jobs": "maxNumJobs",
    "points_per_generation": "nPointsPerGeneration",
    "min_unevaluated_points": "minUnevaluatedPoints",
    "n_jumbo_jobs": "nJumboJobs",
    "n_jumbo_jobs_per_site": "maxJumboPerSite",
}
_AMOUNTS = {
    "n_gb_per_job": "nGBPerJob",
    "target_output_gb": "tgtMaxOutputForNG",
    "max_walltime_h": "maxWalltime",
    "n_gb_per_merge_job": "nGBPerMergeJob",
}
_FLAGS = {
    "respects_lumi_block": "respectLB",
    "merge_output": "mergeOutput",
    "merges_on_site": "onSiteMerging",
    "skip_scout": "skipScout",
    "respects_split_rule": "respectSplitRule",
    "copies_to_scratch": "useLocalIO",
    "uses_build": "useBuild",
    "keeps_processed_events": "notDiscardEvents",
    "resurrects_consumers": "resurrectConsumers",
    "attempts_only_of_failed": "decAttOnFailedES",
    "merges_at_store": "mergeEsOnOS",
    "numbers_within_files": "inFilePosEvtNum",
    "is_fine_grained": "fineGrainedProc",
    "loses_some": "allowPartialFinish",
    "evaluates_points": "hpoWorkflow",
    "skips_short_output": "skipShortOutput",
    "takes_input_at_once": "noInputPooling",
    "releases_whole_lumi_blocks": "releasePerLB",
    "names_from_files": "useFileAsSourceLFN",
}


def _amount(name: str, value: Any) -> float:
    """A positive number; text is accepted as the field's clients send it."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise BadRule(f"split rule {name}: {value!r} is not allowed; a number above zero is") from None
    if isinstance(value, bool) or not 0 < number < 1e12:
        raise BadRule(f"split rule {name}: {value!r} is not allowed; a number above zero is")
    return number


def _cloning(given: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """How copies of jobs are made; a task that states no number has one at each of two sites."""
    if given.get("useJobCloning") not in CLONINGS:
        return {}
    has_number = "n_consumers" in found or "n_sites_per_job" in found
    return {"cloning": given["useJobCloning"], **({} if has_number else {"n_sites_per_job": SITES_OF_COPIES})}


def _of_points(found: Mapping[str, Any]) -> dict[str, Any]:
    """Points of hyper-parameters are ranges of one event; a point that was evaluated stays evaluated.

    A task that states neither has one point, and twice as many jobs as points, as the field's client has it.
    """
    if not found["evaluates_points"]:
        return {}
    n_points = found.get("n_points") or 1
    return {
        "events_per_range": 1, "keeps_processed_events": True, "skip_scout": True, "n_points": n_points,
        "most_jobs": found.get("most_jobs") or JOBS_PER_POINT * n_points,
    }  # fmt: skip


def rules_of(split_rule: Mapping[str, Any] | None, *, event_service: int = EVENT_SERVICE) -> SplitRules:
    """The rules of a task's `split_rule` that are in effect; rules of other subjects are ignored.

    `event_service`: column of the task; only with 1 its events are handed out in ranges. Raises BadRule, also for a
    rule that is disabled by another.
    """
    stated = {key: value for key, value in (split_rule or {}).items() if value is not None}
    for key in (*_COUNTS.values(), *_AMOUNTS.values()):
        if is_set(stated.get(key)):
            _amount(key, stated[key])
    given = rules_in_effect(stated)
    found: dict[str, Any] = {}
    for name, key in _COUNTS.items():
        if is_set(given.get(key)):
            found[name] = int(_amount(key, given[key]))
    for name, key in _AMOUNTS.items():
        if is_set(given.get(key)):
            found[name] = _amount(key, given[key])
    for name, key in _FLAGS.items():
        found[name] = is_set(given.get(key))
    if "n_events_per_input_file" not in found and is_set(given.get("nEventsPerFile")):
        found["n_events_per_input_file"] = int(_amount("nEventsPerFile", given["nEventsPerFile"]))
    if found.get("group_boundary", 1) not in (1, 2, 3, 4):
        raise BadRule(f"split rule groupBoundaryID: {given['groupBoundaryID']!r} is not allowed; 1, 2, 3 and 4 are")
    found["merges_from_scratch"] = is_set(given[MERGE_LOCAL_IO]) if MERGE_LOCAL_IO in given else None
    # input that a parent still makes is followed until it is closed
    found["runs_until_closed"] = is_set(given.get("runUntilClosed")) or is_set(given.get("noWaitParent"))
    found["name_fields"] = tuple(int(field) for field in str(given.get("addNthFieldToLFN") or "").split(",") if field)
    if is_set(given.get("scoutSuccessRate")):
        found["scout_success_rate"] = int(_amount("scoutSuccessRate", given["scoutSuccessRate"]))
    for key in ("randomSeed", "randomSeedOffset"):
        if is_set(given.get(key)):
            found["seed_offset"] = int(_amount(key, given[key]))
    found |= _cloning(given, found)
    found |= _of_points(found)
    has_ranges = event_service == EVENT_SERVICE or found["evaluates_points"]
    unknown = frozenset() if has_ranges else {"events_per_range"}
    known = {field.name for field in fields(SplitRules)} - unknown
    return SplitRules(**{name: value for name, value in found.items() if name in known})
