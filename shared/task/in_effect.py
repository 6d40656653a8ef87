"""The rules of a task that are in effect, as one typed value.

Which of several sizes counts: PanDA, task sizing, order of precedence. The first one that is set disables those after
it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import ConfigDict

from shared.model.names import names_in
from shared.task.rules import MAX_FILES_PER_JOB, StatedRules, WorkedOutRules

#: the first one that is set disables those after it
PRECEDENCE = ("n_events_per_job", "n_files_per_job", "n_gb_per_job", "target_events_per_job", "target_output_gb")
#: groupBoundaryID: one boundary for each job, and it is not split
WHOLE_BOUNDARIES = frozenset({3, 4})
#: in column event_service of a task that uses it
EVENT_SERVICE = 1
#: jobs that a search of hyper-parameters may make where a task does not say (PanDA client, phpo: maxEvaluationJobs)
JOBS_PER_POINT = 2
#: at how many sites copies of a job are where a task states no number
SITES_OF_COPIES = 2
#: as many events as a form may name
LARGEST_NUMBER = 10**12
_NOT_SET = (None, False, 0, "", "0", "False", "false", "NULL")


class BadRule(ValueError):
    """A split rule whose value cannot be used; the message names rule, value and what is allowed."""


class SplitRules(WorkedOutRules, StatedRules):
    """The rules of a task; None means not set. `rules_of` makes it of what table `tasks` keeps."""

    model_config = ConfigDict(populate_by_name=True)

    def changed(self, **values: Any) -> SplitRules:
        """The same with other values, by attribute."""
        return self.model_copy(update=values)

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
    def runs_until_closed(self) -> bool:
        """Whether input that is still made, by anybody or by the parent, is followed until it is closed."""
        return self.run_until_closed or self.no_wait_parent

    @property
    def name_fields(self) -> tuple[int, ...]:
        """The fields of input names that go into output names, counted from 1."""
        return tuple(int(field) for field in (self.add_nth_field_to_lfn or "").split(",") if field)

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


def rules_of(stored: Mapping[str, Any] | None, *, event_service: int = EVENT_SERVICE) -> SplitRules:
    """Read the stored rules of a task; numbers may be text, and names that are no rules are left out.

    `event_service`: column of the task; only with 1 its events are handed out in ranges. Raises BadRule, also for a
    rule that is disabled by another.
    """
    found, attribute_of = dict[str, Any](), _readers()
    for name, value in (stored or {}).items():
        if name in attribute_of and value is not None:
            attribute, read = attribute_of[name]
            if (meant := read(name, value)) is not None:
                found[attribute] = meant
    if found.get("group_boundary", 1) not in (1, 2, 3, 4):
        told = f"{found['group_boundary']!r} is not allowed; 1, 2, 3 and 4 are"
        raise BadRule(f"split rule groupBoundaryID: {told}")
    found = in_precedence(found)
    if "cloning" in found and not {"n_consumers", "n_sites_per_job"} & found.keys():
        found["n_sites_per_job"] = SITES_OF_COPIES
    if found.get("evaluates_points"):
        found |= _of_points(found)
    elif event_service != EVENT_SERVICE:
        found.pop("events_per_range", None)
    return _none().model_copy(update=found)


def in_precedence(found: Mapping[str, Any]) -> dict[str, Any]:
    """The rules, by attribute, without those that an earlier one disables. Nothing else is changed.

    nEventsPerJob that holds whole files is then a number of files: nEventsPerJob // nEventsPerInputFile. A stored
    nFilesPerJob beside nEventsPerJob counts as disabled, so that the same rules come out however often they are asked.
    Rules that are not in the list (nMaxFilesPerJob, maxWalltime, groupBoundaryID) hold beside any of these.

    Example: {nEventsPerJob: 3000, nEventsPerInputFile: 1000, nFilesPerJob: 5, nGBPerJob: 1} gives
    {nEventsPerJob: 3000, nEventsPerInputFile: 1000, nFilesPerJob: 3}.
    """
    first = next((name for name in PRECEDENCE if found.get(name) is not None), None)
    kept = {name: value for name, value in found.items() if name == first or name not in PRECEDENCE}
    if first == "n_events_per_job" and (per_file := found.get("n_events_per_input_file")):
        whole_files = found[first] // per_file
        if whole_files:
            kept["n_files_per_job"] = whole_files
    return kept


def _of_points(found: Mapping[str, Any]) -> dict[str, Any]:
    """Points of hyper-parameters are ranges of one event; a point that was evaluated stays evaluated.

    A task that states neither has one point, and twice as many jobs as points, as the field's client has it.
    """
    n_points = found.get("n_points") or 1
    return {
        "events_per_range": 1, "keeps_processed_events": True, "skip_scout": True, "n_points": n_points,
        "most_jobs": found.get("most_jobs") or JOBS_PER_POINT * n_points,
    }  # fmt: skip


def is_set(value: Any) -> bool:
    """Whether a rule is given: flags and numbers come as booleans, numbers and text."""
    return value not in _NOT_SET


@cache
def _none() -> SplitRules:
    """The rules of a task that states none."""
    return SplitRules()


@cache
def _readers() -> Mapping[str, tuple[str, Callable[[str, Any], Any]]]:
    """By the name of each rule its attribute, and what reads its value."""
    fields = SplitRules.model_fields.items()
    return {field.alias or name: (name, _reader(field.annotation)) for name, field in fields}


def _reader(annotation: Any) -> Callable[[str, Any], Any]:
    """Choose by the type of a rule what reads its value; what it reads as None is not set."""
    kinds = _kinds(annotation)
    if bool in kinds:
        return _flag_or_none if type(None) in kinds else _flag
    if list in kinds:
        return _names
    if dict in kinds:
        return lambda name, value: value if isinstance(value, Mapping) else None
    if int not in kinds:
        return lambda name, value: str(value) if is_set(value) else None
    return _number_below_zero_too if _may_be_negative(annotation) else _number


def _kinds(annotation: Any) -> set[Any]:
    """The plain types of an annotation: {int, NoneType} of `Files | None`."""
    origin = get_origin(annotation)
    if origin in (Union, UnionType):
        return {kind for one in get_args(annotation) for kind in _kinds(one)}
    if hasattr(annotation, "__metadata__"):
        return _kinds(get_args(annotation)[0])
    return {origin or annotation}


def _may_be_negative(annotation: Any) -> bool:
    """Whether the range of a number begins below zero."""
    metadata = [one for part in (annotation, *get_args(annotation)) for one in getattr(part, "__metadata__", ())]
    lows = [getattr(low, "ge", None) for one in metadata for low in getattr(one, "metadata", (one,))]
    return any(low is not None and low < 0 for low in lows)


def _flag(name: str, value: Any) -> bool:
    return is_set(value)


def _flag_or_none(name: str, value: Any) -> bool | None:
    return is_set(value)


def _number(name: str, value: Any) -> int | None:
    """A positive number; text is accepted as the field's clients send it."""
    if not is_set(value):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise BadRule(f"split rule {name}: {value!r} is not allowed; a number above zero is") from None
    if isinstance(value, bool) or not 0 < number <= LARGEST_NUMBER:
        raise BadRule(f"split rule {name}: {value!r} is not allowed; a number above zero is")
    return int(number)


def _number_below_zero_too(name: str, value: Any) -> int | None:
    try:
        return int(value)
    except (TypeError, ValueError):
        raise BadRule(f"split rule {name}: {value!r} is not allowed; a whole number is") from None


def _names(name: str, value: Any) -> list[Any] | None:
    """A list, or text separated by commas."""
    return list(names_in(value) if isinstance(value, str) else value) or None
