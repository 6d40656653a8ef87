"""Subjects that the configuration names for a place: to report, advertise a site or set slots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

EVERYWHERE = "*"


def is_named(configured: Any, place: str, subject: str) -> bool:
    """Whether `{place or "*": [subject, ...]}` names the subject for the place.

    A value of another shape names no subject.

    Example: {"CERN": ["harvester-1"], "*": ["factory"]} names harvester-1 for CERN alone and factory for every place.
    """
    if not isinstance(configured, Mapping):
        return False
    lists = [configured.get(key) for key in (place, EVERYWHERE)]
    return any(isinstance(one, list) and subject in one for one in lists)


def check_named(configured: Any) -> None:
    """Raises ValueError with the first part that `is_named` would not use."""
    allowed = "allowed: null, or an object of lists of subjects, by place or *"
    if configured is None:
        return
    if not isinstance(configured, Mapping):
        raise ValueError(f"{configured!r} is not an object; {allowed}")
    for place, subjects in configured.items():
        if not isinstance(subjects, list) or not all(isinstance(one, str) and one for one in subjects):
            raise ValueError(f"{place}: {subjects!r}; {allowed}")


def check_one_named(configured: Any) -> None:
    """Raises ValueError with the first part that is not one subject for a place."""
    allowed = "allowed: null, or an object of subjects, by place or *"
    if configured is None:
        return
    if not isinstance(configured, Mapping):
        raise ValueError(f"{configured!r} is not an object; {allowed}")
    for place, subject in configured.items():
        if not isinstance(subject, str) or not subject:
            raise ValueError(f"{place}: {subject!r}; {allowed}")
