"""Texts that the placeholders of one job stand for."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from services.job_generation.policy.values import Unit
from services.job_generation.specification.job_fields import sequence_number
from shared.model import command_line


class Own(NamedTuple):
    """What is one job's own: its place in the request, numbers and first file; `middle`: ${MIDDLENAME}.

    `more`: texts of its segment or of its kind.
    """

    place: int
    job_id: int
    attempt: int
    seed: int | None
    middle: str
    n_events: int | None
    first: Unit | None
    more: Mapping[str, str]


def texts_of_job(own: Own, of_task: Mapping[str, str], first_serial: int, wanted: Collection[str]) -> dict[str, str]:
    """Those among the wanted texts that the job has, its seed and those of its segment or kind.

    `first_serial`: the number of the first job of the request.
    """
    first, events = own.first, own.n_events
    if own.middle:
        of_task = {**of_task, "MIDDLENAME": own.middle}
    found = {name: of_task[name] for name in command_line.TEXTS_OF_TASKS if name in wanted}
    if "MAXEVENTS" in wanted:
        found["MAXEVENTS"] = str(-1 if events is None else events)
    if "SKIPEVENTS" in wanted:
        found["SKIPEVENTS"] = str((first.start_event if first else None) or 0)
    if "FIRSTEVENT" in wanted:
        found["FIRSTEVENT"] = str((first.first_event if first else None) or 0)
    if "ATTEMPTNR" in wanted:
        found["ATTEMPTNR"] = str(own.attempt)
    if "SN" in wanted:
        found["SN"] = command_line.padded(first_serial + own.place)
    if "PANDAID" in wanted:
        found["PANDAID"] = str(own.job_id)
    if own.seed is not None:
        found["RNDMSEED"] = str(own.seed)
    if first is not None and "SEQNUMBER" in wanted:
        found["SEQNUMBER"] = sequence_number(first)
    found.update(own.more)
    return found
