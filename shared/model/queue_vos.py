"""Whose a queue is, as its record says."""

from __future__ import annotations

from typing import Any


def vos_of_record(vo_name: Any) -> frozenset[str]:
    """The VOs of a queue (CRIC: vo_name, one, several with commas, or a list); none: it is of every VO."""
    names = vo_name.split(",") if isinstance(vo_name, str) else vo_name if isinstance(vo_name, list) else ()
    return frozenset(name for name in (str(one).strip() for one in names) if name)
