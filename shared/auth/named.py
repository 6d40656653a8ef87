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
