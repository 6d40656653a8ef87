"""What a task can do with its input once it was read, and what units become (JEDI: Contents Feeder)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from services.task_definition.tasks.policy.input_wishes import InputWish
from shared.brokerage.smallest_job import least_secondary_files
from shared.catalogue.port import OPEN
from shared.model.storage import Storage
from shared.states.file import FileStatus
from shared.task.in_effect import SplitRules

NAMES_SHOWN = 5
_BROKEN = "corrupted, or without events to be cut or handed out by"
_MEANS: Mapping[FileStatus, str] = {"broken": f"broken ({_BROKEN})"}


@dataclass(frozen=True)
class InputRead:
    """One dataset of a task after its reading; counts are units, `n_added` those of this reading.

    `n_untaken`: no job has taken them; `n_opened`: they may be used. `state` as the catalogue has it now.
    `n_older`: attempts of files of which the dataset has newer ones; `n_off_index`: files whose index is not in all
    datasets of the task that belong together by it; `n_not_made`: files that the parent has not finished. `too_many`:
    it was not read to its end, as the task would have more units than it may.
    """

    dataset_id: int
    wanted: InputWish
    state: str
    n_units: int
    n_added: int
    n_untaken: int
    n_opened: int = 0
    n_changed: int = 0
    names_not_there: Sequence[str] = ()
    n_older: int = 0
    n_off_index: int = 0
    n_not_made: int = 0
    too_many: str | None = None

    @property
    def n_taken(self) -> int:
        """Units that jobs have taken."""
        return self.n_units - self.n_untaken

    @property
    def is_open(self) -> bool:
        """Whether the catalogue may add files."""
        return self.state == OPEN


@dataclass(frozen=True)
class NotEnough:
    """Why the input cannot be used, now (`temporary`) or ever, and which datasets that is about.

    `is_staged`: all that is in the way is that some of it is being staged from tape.
    """

    reason: str
    dataset_ids: tuple[int, ...]
    temporary: bool
    is_staged: bool = False


def not_enough(read: Sequence[InputRead], rules: SplitRules, unusable: Mapping[FileStatus, int]) -> NotEnough | None:
    """Why a task cannot go on with its input; None if it can. An empty input may be allowed.

    `unusable`: units of the masters that are in other states than ready, by state. Waits: for files that were named and
    are not there, for an input that is empty and still open (or waitInput), for copies of all its files, for secondary
    files while their dataset is open. What is empty or too little for ever breaks the task.
    """
    masters = [one for one in read if one.wanted.is_master]
    if not masters:
        return None
    for one in masters:
        if one.too_many is not None:
            return NotEnough(f"{one.wanted.name} makes {one.too_many}", (one.dataset_id,), temporary=False)
    for one in read:
        if one.names_not_there and one.wanted.needs_names:
            shown = ", ".join(one.names_not_there[:NAMES_SHOWN])
            more = f" and {len(one.names_not_there) - NAMES_SHOWN} more" * (len(one.names_not_there) > NAMES_SHOWN)
            there = ", or it has newer attempts of them" if one.n_older else ""
            return NotEnough(f"files that were named are not in {one.wanted.name}{there}: {shown}{more}",
                             (one.dataset_id,), temporary=True)  # fmt: skip
    trouble = _empty(masters, rules) or _out_of_reach(masters, unusable)
    return trouble or _too_few_secondaries(read, masters, unusable.get("broken", 0))


def left_out(read: Sequence[InputRead], unusable: Mapping[FileStatus, int]) -> str:
    """What a task that goes on says of input that it never uses; empty where it uses all.

    Example: "2 units of its input are not used: corrupted, or without events to be cut or handed out by".
    """
    count = unusable.get("broken", 0)
    told = [f"{count} units of its input are not used: {_BROKEN}"] if count else []
    return "; ".join([*told, *(line for one in read for line in _left_out_of(one))])


def left_out_of(name: str, n_older: int, n_off_index: int, n_not_made: int) -> list[str]:
    """Why files of a dataset are no input, a sentence for each reason.

    Example: "3 files of mc.evnt are not used: it has newer attempts of them (usedup takes all)".
    """
    reasons = (
        (n_older, "it has newer attempts of them (usedup takes all)"),
        (n_off_index, "their index is not in all input that is indexConsistent (second and third field of the name)"),
        (n_not_made, "the parent task has not finished them (check)"),
    )
    return [f"{count} files of {name} are not used: {why}" for count, why in reasons if count]


def _left_out_of(one: InputRead) -> list[str]:
    return left_out_of(one.wanted.name, one.n_older, one.n_off_index, one.n_not_made)


def _empty(masters: Sequence[InputRead], rules: SplitRules) -> NotEnough | None:
    if any(one.n_units for one in masters) or rules.allow_empty_input:
        return None
    names = ", ".join(one.wanted.name for one in masters)
    still_open = any(one.is_open for one in masters)
    return NotEnough(
        "; ".join(
            [
                f"no file of {names} can be used" + ("; it is still open" if still_open else ""),
                *(line for one in masters for line in _left_out_of(one)),
            ]
        ),
        tuple(one.dataset_id for one in masters),
        temporary=still_open or rules.wait_input,
    )


def _out_of_reach(masters: Sequence[InputRead], unusable: Mapping[FileStatus, int]) -> NotEnough | None:
    """No unit is ready, and some would be if they had a copy, or if the catalogue had them."""
    n_units = sum(one.n_units for one in masters)
    kinds: tuple[FileStatus, ...] = ("pending", "staging", "missing", "lost", "broken")
    told = {status: unusable[status] for status in kinds if unusable.get(status)}
    if not n_units or sum(told.values()) < n_units:
        return None
    text = ", ".join(f"{count} {_MEANS.get(status, status)}" for status, count in told.items())
    temporary = any(status not in ("lost", "broken") for status in told)
    dataset_ids = tuple(one.dataset_id for one in masters)
    reason = f"none of {n_units} units of input can be used: {text}"
    return NotEnough(reason, dataset_ids, temporary=temporary, is_staged="staging" in told)


def _too_few_secondaries(read: Sequence[InputRead], masters: Sequence[InputRead], n_broken: int) -> NotEnough | None:
    """Files by ratio to the units of the masters that jobs will take, as jobs take them; none takes broken ones."""
    n_units = max(0, sum(one.n_untaken for one in masters) - n_broken)
    for one in read:
        ratio = one.wanted.files_per_master_file
        if one.wanted.is_master or ratio is None:
            continue
        needed = least_secondary_files(ratio, n_units, one.wanted.units_per_job)
        if one.n_untaken < needed and any(master.n_added for master in masters):
            return NotEnough(
                f"secondary dataset {one.wanted.name} has {one.n_untaken} files for other jobs to take, but {n_units} "
                f"files or ranges of events of the master need {needed} (ratio {ratio:g})",
                (one.dataset_id,),
                temporary=one.is_open,
            )
    return None


@dataclass(frozen=True)
class Whereabouts:
    """Where the copies of a dataset count.

    `is_here`: all its files have one; `not_at`: storages whose copies do not count.
    """

    is_here: bool
    not_at: list[str]


def whereabouts(copies: Mapping[str, bool], storages: Mapping[str, Storage], *, needs_disk: bool) -> Whereabouts:
    """Which copies count: those at storages of the grid.

    Not those on tape, for a task that has its input staged. `copies`: whether each is complete, by storage. A copy at a
    storage that the grid does not have cannot be read from: it is none. A dataset of which no storage is known to have
    anything is taken to be somewhere. Without a grid (`storages` is empty) every storage counts.
    """

    def counts(name: str) -> bool:
        """Whether a copy at this storage can be read from."""
        storage = storages.get(name)
        return not storages if storage is None else not (needs_disk and storage.is_tape)

    is_here = not copies or any(complete and counts(name) for name, complete in copies.items())
    return Whereabouts(is_here, [name for name in copies if not counts(name)])


@dataclass(frozen=True)
class UnitChange:
    """What a unit that no job has becomes, with what the catalogue says of it now."""

    file_id: int
    was: FileStatus
    status: FileStatus
    size_bytes: int | None
    checksum: str | None
    n_events: int | None


def changed_unit(found: Mapping[str, Any], wanted: InputWish) -> UnitChange:
    """The change of a unit that differs from the catalogue.

    Gone from the catalogue: lost. Corrupted, as the catalogue says: broken. Without a copy: missing, or it waits
    (pending for the parent, staging for the tape). Else ready, with size, checksum and events as they are now; so a
    file that was lost or missing comes back. Source: JEDI, Protection against lost/broken input files.
    """
    was: FileStatus = found["status"]
    kept = (found["fsize"], found["checksum"], found["n_events"])
    if not found["is_listed"]:
        return UnitChange(found["file_id"], was, "lost", *kept)
    if found["is_corrupted"]:
        return UnitChange(found["file_id"], was, "broken", *kept)
    whole = found["start_event"] is None and wanted.compares_events
    events = found["listed_events"] if whole else found["n_events"]
    now = (found["listed_size"], found["listed_checksum"], events)
    elsewhere: FileStatus = wanted.without_copy
    here: FileStatus = "ready" if was == "ready" else wanted.with_copy
    return UnitChange(found["file_id"], was, here if found["is_here"] else elsewhere, *now)
