"""What an acquire asks for: read directly where every field has its usual type, else by the model.

The model costs more than the pick of a job. Whatever the short way does not know is left to the model, which alone
refuses; a test holds both against each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from services.job_dispatch.api.requests import LEGACY_NAMES, MOST_JOBS, TASK_QUEUE_FIELDS, AcquireJobs, parse
from services.job_dispatch.policy.fitting import Offer, PilotKind
from shared.model.whole_numbers import LARGEST_INT8
from shared.web.values import absent

_TEXTS = frozenset({
    "prod_source_label", "resource_type", "node", "computing_element", "harvester_id", "scheduler_id", "prod_user_id",
    "working_group",
})  # fmt: skip
#: the largest value of each whole number; none of them may be negative here
_NUMBERS = {
    "memory": 2**40, "disk_space": 2**40, "remaining_time": 2**40, "task_id": LARGEST_INT8, "worker_id": LARGEST_INT8,
}  # fmt: skip
_FIELDS = frozenset({*_TEXTS, *_NUMBERS, "site_name", "n_jobs"})
_NAMES = {**{legacy: name for legacy, name in LEGACY_NAMES.items() if name in _FIELDS}, **{one: one for one in _FIELDS}}
LONGEST_SITE_NAME = 200


@dataclass(frozen=True, slots=True)
class Wanted:
    """One acquire: its offer, how many jobs, and whether it said how many."""

    offer: Offer
    n_jobs: int = 1
    says_how_many: bool = False


def read_acquire(fields: Mapping[str, Any], subject: str) -> Wanted:
    """What a caller with this subject asks for. Raises BadRequest."""
    usual = usual_fields(fields)
    if usual is not None:
        return Wanted(offer_of(usual, subject), usual.get("n_jobs", 1), "n_jobs" in usual)
    model = parse(AcquireJobs, fields)
    return Wanted(offer_of_model(model, subject), model.n_jobs, "n_jobs" in model.model_fields_set)


def offer_of_model(model: AcquireJobs, subject: str | None) -> Offer:
    """What the pilot offers, to task queues too. Raises BadRequest."""
    offer, task_queues = offer_of(model.__dict__, subject), model.task_queues()
    return offer if task_queues is None else replace(offer, kind=replace(offer.kind, task_queues=task_queues))


def offer_of(fields: Mapping[str, Any], subject: str | None) -> Offer:
    """What the pilot with this subject offers, by the names and types of the model.

    Disk and time are rounded down, so that few kinds of pilots exist; a job never gets less than it needs.
    """
    get = fields.get
    kind = kind_of(
        get("prod_source_label") or "",
        get("resource_type") or "",
        get("memory") or 0,
        _rounded(get("disk_space") or 0, 100),
        _rounded(get("remaining_time") or 0, 60),
    )
    return Offer(
        fields["site_name"], kind, _worker(fields), get("task_id") or None, subject,
        user_name=get("prod_user_id"), working_group=get("working_group"),
    )  # fmt: skip


@lru_cache(4096)
def kind_of(prod_source_label: str, resource_type: str, memory_mb: int, disk_mb: int, remaining_s: int) -> PilotKind:
    """One object per kind: there are few, and each decides which lanes fit."""
    return PilotKind(prod_source_label, resource_type, memory_mb, disk_mb, remaining_s)


def _worker(fields: Mapping[str, Any]) -> str | None:
    harvester_id, worker_id, node = fields.get("harvester_id"), fields.get("worker_id"), fields.get("node")
    if harvester_id and worker_id is not None:
        return f"{harvester_id}:{worker_id}"[:200]
    return node[:200] if node else None


def _rounded(value: int, step: int) -> int:
    """Down to a multiple, but never to 0, which would mean "no limit"."""
    return value // step * step if value >= step else value


def usual_fields(fields: Mapping[str, Any]) -> dict[str, Any] | None:
    """The fields by the names of the model, as the model would read them; None where it must look itself."""
    found: dict[str, Any] = {}
    for sent, value in fields.items():
        name = _NAMES.get(sent)
        if name is None:
            if sent in TASK_QUEUE_FIELDS:
                return None
            continue
        if name in _TEXTS:
            if type(value) is not str:
                return None
            found[name] = absent(value)
        elif name == "site_name":
            if type(value) is not str or not 0 < len(value) <= LONGEST_SITE_NAME:
                return None
            found[name] = value
        elif type(value) is not int or not (1 if name == "n_jobs" else 0) <= value <= _NUMBERS.get(name, MOST_JOBS):
            return None
        else:
            found[name] = value
    return found if "site_name" in found else None
