"""Which files of a dataset a task wants, how they become units, and how many more of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from services.task_definition.tasks.policy.definition_plan import InputDatasetPlan, Refined
from services.task_definition.tasks.policy.unit_limits import DEFAULT_LIMITS, UnitLimits
from shared.brokerage.smallest_job import most_secondary_files
from shared.states.file import FileStatus


@dataclass(frozen=True)
class NumberedUnits:
    """Units of a task without input, numbered from 1 + `offset`; the last has what is left of the events.

    `n_opened`: so many may be used when all are there.
    """

    n_rows: int
    n_opened: int
    first_event: int
    offset: int = 0
    events_per_row: int | None = None
    n_events: int | None = None
    max_attempt: int | None = None
    max_failure: int | None = None


@dataclass(frozen=True)
class InputWish:
    """Kept with the reading of a dataset, so that each slice is read by the same rules.

    `events_per_unit`: files are split into ranges of so many events (event-level splitting), one row for each; None:
    one row for each file. `needs_events`: events are handed out in ranges (event service).
    `events_per_file`: counts for every file instead of what the catalogue knows. `max_files` and
    `max_events` are limits of the whole task, of which `files_used` and `events_used` were used before this reading.
    `first_event`: the running number of the task's first event. `files_per_master_file`: of a secondary dataset that
    follows a ratio. `units_per_file`: about so many rows for each file. `without_copy`: the state of a file that the
    catalogue lists and no storage has. `is_new`: the task has no file of it yet. `aligned_to`: files whose events are a
    multiple of it come first, then those with most events (orderInputBy). `skip_short_of`: of a file with fewer events
    than the task says, only whole jobs of so many are used (skipShortInput). `counts_in_file`: event numbers begin anew
    with each file (inFilePosEvtNum). `boundaries`: of each of `names`, which are read in this order (loadXML).
    `takes_older`: of files that differ in the number of their attempt only, all and not the newest alone (usedup).
    `made_by`: only files that this task has finished as its output (check). `skip_files`: the first so many are left
    out (offset).
    `by_index`: only files whose index all such datasets of the task have are used (indexConsistent); where
    the task `makes_jobs` already, a new file of it is lost until all is read. `numbered`: no files are read.
    `most`: units that the task may have.
    """

    is_master: bool
    name: str
    max_attempt: int | None = None
    max_failure: int | None = None
    max_files: int | None = None
    max_events: int | None = None
    files_used: int = 0
    events_used: int = 0
    first_event: int = 1
    events_per_unit: int | None = None
    needs_events: bool = False
    events_per_file: int | None = None
    units_per_file: int = 1
    names: tuple[str, ...] | None = None
    boundaries: tuple[int, ...] | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    skip_files_used_by: tuple[int, ...] = ()
    by_lumi_block: bool = False
    aligned_to: int | None = None
    skip_short_of: int | None = None
    counts_in_file: bool = False
    respect_lumi_blocks: bool = False
    files_per_master_file: float | None = None
    without_copy: FileStatus = "missing"
    needs_disk: bool = False
    needs_names: bool = False
    units_per_job: int | None = None
    is_new: bool = False
    takes_older: bool = False
    made_by: int | None = None
    skip_files: int = 0
    by_index: bool = False
    makes_jobs: bool = False
    numbered: NumberedUnits | None = None
    most: UnitLimits = DEFAULT_LIMITS

    @classmethod
    def from_stored(cls, stored: Mapping[str, Any]) -> InputWish:
        """What `stored` gave."""
        lists = {name: tuple(value) for name, value in stored.items() if isinstance(value, list)}
        numbered, most = stored.get("numbered"), stored.get("most")
        parts = {
            "numbered": None if numbered is None else NumberedUnits(**numbered),
            "most": DEFAULT_LIMITS if most is None else UnitLimits(**most),
        }
        return cls(**{**stored, **lists, **parts})

    def stored(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)

    @property
    def with_copy(self) -> FileStatus:
        """The state of a new file that a storage has."""
        return "lost" if self.by_index and self.makes_jobs else "ready"

    @property
    def is_whole(self) -> bool:
        """Whether all files of the dataset are wanted, one unit for each, and none is a unit yet.

        Those of other wishes are chosen, cut or put in order besides.
        """
        is_cut = self.events_per_unit is not None or self.needs_events or self.skip_short_of is not None
        is_chosen = self.names is not None or self.include or self.exclude or self.skip_files_used_by or self.skip_files
        is_ordered = self.by_lumi_block or self.respect_lumi_blocks or self.aligned_to is not None
        return self.is_new and not (is_cut or is_chosen or is_ordered or self.made_by is not None)

    @property
    def compares_events(self) -> bool:
        """Whether the events of a unit are those that the catalogue has.

        No limit cut them, and nobody stated others.
        """
        return self.is_master and self.events_per_file is None and self.max_events is None

    def limits(self, read: Read) -> Limits:
        """What may still be added after what was read so far in this reading.

        Example: a task of at most 100 files that used 30 before and read 50 may add 20 more; a secondary of ratio 2
        beside 10 new units of the master may have 20 files.
        """
        if self.is_master:
            files = None if self.max_files is None else max(0, self.max_files - self.files_used - read.n_files)
            events = None if self.max_events is None else max(0, self.max_events - self.events_used - read.n_events)
            return Limits(files, events, self.first_event + self.events_used + read.n_events)
        if self.files_per_master_file is None:
            return Limits(None, None, 1)
        most = most_secondary_files(self.files_per_master_file, read.n_units_of_masters)
        return Limits(max(0, most - read.n_files), None, 1)


@dataclass(frozen=True)
class Read:
    """What this reading added: of all masters where a master is asked for, of one secondary dataset else.

    `n_units_of_task`: what its masters have, also from before.
    """

    n_files: int = 0
    n_events: int = 0
    n_units_of_masters: int = 0
    n_units_of_task: int = 0


@dataclass(frozen=True)
class Limits:
    """How much more may be added (None: any number), and the running number of the next event."""

    max_files: int | None
    max_events: int | None
    first_event: int

    @property
    def is_reached(self) -> bool:
        """Whether nothing more is wanted."""
        return self.max_files == 0 or self.max_events == 0


def wish_for(
    plan: Refined,
    one: InputDatasetPlan,
    *,
    max_attempt: int,
    max_failure: int | None,
    used: tuple[int, int],
    parent_works: bool,
    is_new: bool,
    takes_unstaged: bool = False,
    makes_jobs: bool = False,
) -> InputWish:
    """The wish of a task for one of its input datasets.

    `used`: files and events that its masters have already. `takes_unstaged`: somebody decided not to wait for tapes.
    `makes_jobs`: the task may do so already.
    """
    rules, stages = plan.rules, plan.rules.input_pre_staging
    by_boundary = rules.group_boundary is not None and one.boundaries is None  # by luminosity block, not by its own
    elsewhere: FileStatus = "staging" if stages else "pending" if parent_works else "missing"
    common = InputWish(
        is_master=one.is_master,
        name=one.name,
        names=one.names,
        boundaries=one.boundaries,
        include=one.include,
        exclude=one.exclude,
        without_copy=elsewhere,
        needs_disk=stages and not takes_unstaged,
        needs_names=one.boundaries is not None or not rules.ignore_missing_in_ds,
        units_per_job=plan.units_per_job,
        is_new=is_new,
        takes_older=bool(one.attributes.get("usedup")),
        made_by=one.made_by,
        skip_files=one.skip_files,
        by_index=bool(one.attributes.get("indexConsistent")),
        makes_jobs=makes_jobs,
    )
    if not one.is_master:
        return replace(common, files_per_master_file=one.files_per_master_file)
    return replace(
        common,
        max_attempt=max_attempt,
        max_failure=max_failure,
        max_files=plan.max_files,
        max_events=plan.max_events,
        files_used=used[0],
        events_used=used[1],
        first_event=plan.first_event,
        events_per_unit=one.events_per_unit,
        needs_events=rules.uses_event_service,
        events_per_file=one.events_per_file,
        units_per_file=one.units_per_file,
        skip_files_used_by=tuple(rules.skip_files_used_by or ()),
        by_lumi_block=rules.order_by_lb or by_boundary,
        aligned_to=rules.n_events_per_job if rules.order_input_by else None,
        skip_short_of=rules.n_events_per_job if rules.skip_short_input else None,
        counts_in_file=rules.numbers_within_files,
        respect_lumi_blocks=rules.respects_lumi_block or by_boundary,
    )
