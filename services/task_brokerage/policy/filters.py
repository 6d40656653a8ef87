"""The checks of a nucleus, one function each (PanDA brokerage: ATLAS production task brokerage)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from services.task_brokerage.policy.columns import NucleusColumns, input_gb
from shared.brokerage.check import YES_NO, Check, Tier, Verdict
from shared.brokerage.nuclei import BARE
from shared.brokerage.nucleus import TaskRequest
from shared.model.units import GB_BYTES

ACTIVE = Check(500, "nucleus_active", Tier.CONFIGURATION, False, "state is ACTIVE", "must be", words=YES_NO)
BACKLOG = Check(501, "transfer_backlog", Tier.CAPACITY, True, "files queued to the nucleus", "at most", "files")
STORAGE = Check(502, "nucleus_storage", Tier.CONFIGURATION, False, "storages", "at least", "storages")
STORAGE_WORKS = Check(503, "nucleus_storage_works", Tier.DATA, True, "storage can be written", "must be", words=YES_NO)
SPACE = Check(504, "nucleus_space", Tier.CAPACITY, True, "space left after existing work", "more than", "GB")
ABLE_QUEUE = Check(505, "able_queue", Tier.CONFIGURATION, False, "queues that can run the work", "at least", "queues")
INPUT_SIZE = Check(506, "input_size", Tier.DATA, False, "local part of the input size", "more than")
INPUT_FILES = Check(507, "input_files", Tier.DATA, False, "local part of the input files", "more than")
# What nuclei are, and what tasks allow.
_BARE_WORDS = ("normal", *BARE[1:], "only or allow", "normal or allow")
_NORMAL, _ONLY, _ALLOW, _ONLY_OR_ALLOW, _NORMAL_OR_ALLOW = range(len(_BARE_WORDS))
FULL_CHAIN = Check(
    508, "full_chain", Tier.POLICY, False, "bareNucleus", "the task's fullChain allows", words=_BARE_WORDS
)
PARENT_NUCLEUS = Check(509, "parent_nucleus", Tier.POLICY, False, "nucleus of the parent", "must be", words=YES_NO)
LOCALITY = (INPUT_SIZE, INPUT_FILES)

Decide = Callable[[NucleusColumns, TaskRequest], Verdict | None]


@dataclass(frozen=True)
class NucleusFilter:
    """A check of a nucleus with the pure function that decides it; None: does not apply."""

    check: Check
    decide: Decide


def active(nuclei: NucleusColumns, request: TaskRequest) -> Verdict | None:
    """Only nuclei in ACTIVE state."""
    return Verdict(nuclei.active, nuclei.active, 1.0)


def backlog(nuclei: NucleusColumns, request: TaskRequest) -> Verdict | None:
    """Long transfer backlogs exclude a nucleus, unless the task's t1Weight is negative."""
    if request.t1_weight < 0:
        return None
    limit = request.limits.queued_files_of_nucleus_cap
    return Verdict(~(nuclei.backlog_files > limit), nuclei.backlog_files, float(limit))


def storage(nuclei: NucleusColumns, request: TaskRequest) -> Verdict | None:
    """A nucleus must have a storage: its default endpoint, else its disk storage with most free space."""
    has = ~np.isnan(nuclei.space_free_gb)
    return Verdict(has, has, 1.0)


def storage_works(nuclei: NucleusColumns, request: TaskRequest) -> Verdict | None:
    """Output must be able to reach it.

    The document has no such check: taken from "skip blacklisted storage endpoints" of the job brokerage, for writing.
    """
    return Verdict(nuclei.writable, nuclei.writable, 1.0)


def space(nuclei: NucleusColumns, request: TaskRequest) -> Verdict | None:
    """spaceFree + spaceExpired - normalizedExpOutSize x RW > diskThreshold (GB)."""
    left = nuclei.space_free_gb - nuclei.work_output_gb
    return Verdict(left > request.limits.disk_threshold_gb, left, request.limits.disk_threshold_gb)


def able_queue(nuclei: NucleusColumns, request: TaskRequest) -> Verdict | None:
    """A nucleus must have a queue that can run the work.

    The document has no such check: taken from the field, with the persistent checks of a typical job of the task.
    """
    return Verdict(nuclei.able_queues >= 1, nuclei.able_queues, 1.0)


def _some_of_carousel(nuclei: NucleusColumns, request: TaskRequest) -> np.ndarray:
    """With inputPreStaging an incomplete copy is enough: staging completes it."""
    return (nuclei.local_files > 0) & request.input_pre_staging


def input_size(nuclei: NucleusColumns, request: TaskRequest) -> Verdict | None:
    """Of large input, more than a fraction of the bytes must be at the nucleus.

    Not asked after DATA_LOCATION_CHECK_PERIOD in assigning: the document has the parameter and no rule for it.
    """
    total_gb = input_gb(request)
    if request.has_waited_for_data or total_gb <= request.limits.input_size_threshold_gb:
        return None
    fraction = nuclei.local_bytes / (total_gb * GB_BYTES)
    wanted = request.limits.input_size_fraction
    return Verdict((fraction > wanted) | _some_of_carousel(nuclei, request), fraction, wanted)


def input_files(nuclei: NucleusColumns, request: TaskRequest) -> Verdict | None:
    """Of many files, more than a fraction must be at the nucleus.

    The document compares the total input size with INPUT_NUM_THRESHOLD: taken is the number of files. Not asked after
    DATA_LOCATION_CHECK_PERIOD in assigning.
    """
    total = sum(one.n_files for one in request.inputs_for_locality)
    if request.has_waited_for_data or total <= request.limits.input_files_threshold:
        return None
    fraction = nuclei.local_files / total
    wanted = request.limits.input_files_fraction
    return Verdict((fraction > wanted) | _some_of_carousel(nuclei, request), fraction, wanted)


def _parent_is_bare(nuclei: NucleusColumns, request: TaskRequest) -> int | None:
    """The place of the parent's nucleus, if that is a bare one."""
    if request.parent_nucleus not in nuclei.names:
        return None
    place = nuclei.names.index(request.parent_nucleus)
    return place if nuclei.bare[place] != _NORMAL else None


def full_chain(nuclei: NucleusColumns, request: TaskRequest) -> Verdict | None:
    """fullChain only: nuclei with bareNucleus=only; require: only or allow; others: not those with only.

    capable follows a parent at a bare nucleus (see the next check) and is ignored otherwise.
    """
    bare = nuclei.bare
    if request.full_chain == "only":
        return Verdict(bare == _ONLY, bare, float(_ONLY))
    if request.full_chain == "require":
        return Verdict(bare != _NORMAL, bare, float(_ONLY_OR_ALLOW))
    if request.full_chain == "capable" and _parent_is_bare(nuclei, request) is not None:
        return None
    return Verdict(bare != _ONLY, bare, float(_NORMAL_OR_ALLOW))


def parent_nucleus(nuclei: NucleusColumns, request: TaskRequest) -> Verdict | None:
    """fullChain capable: the nucleus of the parent, if the parent was given a bare nucleus."""
    place = _parent_is_bare(nuclei, request) if request.full_chain == "capable" else None
    if place is None:
        return None
    passes = np.arange(len(nuclei.names)) == place
    return Verdict(passes, passes, 1.0)


FILTERS = (
    NucleusFilter(ACTIVE, active),
    NucleusFilter(BACKLOG, backlog),
    NucleusFilter(STORAGE, storage),
    NucleusFilter(STORAGE_WORKS, storage_works),
    NucleusFilter(SPACE, space),
    NucleusFilter(ABLE_QUEUE, able_queue),
    NucleusFilter(INPUT_SIZE, input_size),
    NucleusFilter(INPUT_FILES, input_files),
    NucleusFilter(FULL_CHAIN, full_chain),
    NucleusFilter(PARENT_NUCLEUS, parent_nucleus),
)


def kept_from_waiver(request: TaskRequest) -> str:
    """Why locality holds even if no nucleus passes: the limits the task is beyond; empty: may be waived.

    It is waived for low IO intensity and little input, or for high priority.
    """
    limits = request.limits
    if request.priority >= limits.max_priority_with_local_data:
        return ""
    io_kb_s, most_io_kb_s = request.io_intensity_kb_s, limits.min_io_intensity_with_local_data_kb_s
    size_gb, most_gb = input_gb(request), limits.min_input_with_local_data_gb
    beyond = []
    if io_kb_s > most_io_kb_s:
        beyond.append(f"ioIntensity {io_kb_s:.6g} kB/s is above MIN_IO_INTENSITY_WITH_LOCAL_DATA {most_io_kb_s:.6g}")
    if size_gb > most_gb:
        beyond.append(f"input of {size_gb:.6g} GB is above MIN_INPUT_SIZE_WITH_LOCAL_DATA {most_gb:.6g}")
    if not beyond:
        return ""
    most_priority = limits.max_priority_with_local_data
    beyond.append(f"priority {request.priority} is below MAX_TASK_PRIO_WITH_LOCAL_DATA {most_priority}")
    return ", ".join(beyond)
