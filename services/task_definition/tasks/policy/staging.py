"""Which input is staged from tape now, to where, and when it is given up.

Source: JEDI: Task Refiner (staging), USER_MAX_TAPE_INPUT_TB. The document names no limit of what is staged at a time;
one of each person and one of each tape are the choice taken here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from shared.config.parameter import Parameter, set_by
from shared.model.storage import Storage

TB_BYTES = 1024**4
DISK_TYPE = "DATADISK"
_MOST_OF_DATASET = Parameter(
    "taskrefiner",
    "USER_MAX_TAPE_INPUT_TB",
    300.0,
    "TB",
    "of one input dataset that analysis may have staged from tape; negative: any",
    -1,
)
_AT_ONCE_OF_USER = Parameter(
    "taskrefiner", "STAGED_FOR_USER_TB", 100.0, "TB", "that are staged from tape for a person at a time; 0: any"
)
_AT_ONCE_OF_TAPE = Parameter(
    "taskrefiner", "STAGED_FROM_TAPE_TB", 1000.0, "TB", "that are staged from one tape at a time; 0: any"
)
_GIVEN_UP = Parameter("taskrefiner", "STAGING_GIVEN_UP_DAYS", 30.0, "days", "until input that is staged is given up", 1)
_KEPT = Parameter("taskrefiner", "STAGED_COPY_DAYS", 15.0, "days", "for which staged input is kept on disk", 1)


@dataclass(frozen=True)
class StagingLimits:
    """The parameters."""

    most_of_dataset_tb: float = set_by(_MOST_OF_DATASET, float)
    at_once_of_user_tb: float = set_by(_AT_ONCE_OF_USER, float)
    at_once_of_tape_tb: float = set_by(_AT_ONCE_OF_TAPE, float)
    given_up_days: float = set_by(_GIVEN_UP, float)
    kept_days: float = set_by(_KEPT, float)


@dataclass(frozen=True)
class StageIn:
    """A dataset that a task waits for; `owner`: VO and person."""

    stage_in_id: int
    owner: tuple[str, str]
    source: str
    n_bytes: int


def too_large(dataset: str, n_bytes: int, limits: StagingLimits) -> str | None:
    """Why analysis may not have a dataset staged; None where it may.

    Example: of 301 TB with a limit of 300 TB: not.
    """
    found_tb = n_bytes / TB_BYTES
    if limits.most_of_dataset_tb < 0 or found_tb <= limits.most_of_dataset_tb:
        return None
    return f"input {dataset} of {found_tb:.1f} TB is on tape; allowed for analysis: {limits.most_of_dataset_tb:g} TB"


def lacks(tape: str | None, disk: str | None) -> str | None:
    """What a stage-in without one of both waits for."""
    if tape is None:
        return "no tape of the grid is known to have it"
    return None if disk is not None else f"no {DISK_TYPE} of the grid can be written to"


def held(one: StageIn, limits: StagingLimits) -> str:
    """Why a stage-in does not begin although it has a place."""
    return (
        f"its person or the tape {one.source} has as much staged as may be at a time: {limits.at_once_of_user_tb:g} TB"
        f" for a person ({_AT_ONCE_OF_USER.key}), {limits.at_once_of_tape_tb:g} TB from a tape ({_AT_ONCE_OF_TAPE.key})"
    )


def place_for(tape: str | None, storages: Mapping[str, Storage]) -> str | None:
    """The disk that input of a tape is staged to: at its site, else where most room is."""
    site = storages[tape].site if tape is not None and tape in storages else None
    disks = [one for one in storages.values() if not one.is_tape and one.type == DISK_TYPE and one.works("write_wan")]
    return max(disks, key=lambda one: (one.site == site, one.space_usable_gb, one.name)).name if disks else None


def beginning(waiting: Iterable[StageIn], active: Sequence[StageIn], limits: StagingLimits) -> list[StageIn]:
    """What begins now, the oldest first: its person and its tape have room, or nothing is staged."""
    of_user, of_tape, found = dict[tuple[str, str], int](), dict[str, int](), list[StageIn]()
    for one in active:
        of_user[one.owner] = of_user.get(one.owner, 0) + one.n_bytes
        of_tape[one.source] = of_tape.get(one.source, 0) + one.n_bytes
    for one in waiting:
        user, tape = of_user.get(one.owner, 0), of_tape.get(one.source, 0)
        if _fits(user, one.n_bytes, limits.at_once_of_user_tb) and _fits(tape, one.n_bytes, limits.at_once_of_tape_tb):
            of_user[one.owner], of_tape[one.source] = user + one.n_bytes, tape + one.n_bytes
            found.append(one)
    return found


def _fits(used: int, more: int, limit_tb: float) -> bool:
    return limit_tb <= 0 or used == 0 or used + more <= limit_tb * TB_BYTES
