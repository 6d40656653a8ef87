"""One page, before it has a form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Page:
    """`data` is what JSON has; `away`: parts that could not be had, and why.

    `verb`: of the command line, which prints the same. `shown`: what the template needs besides, such as pictures.
    `refresh_s`: a browser with scripts asks again for the part with the id `live` so often.
    """

    template: str
    title: str
    verb: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    away: Mapping[str, str] = field(default_factory=dict)
    shown: Mapping[str, Any] = field(default_factory=dict)
    status: int = 200
    refresh_s: int = 0


def problem_page(title: str, what: str, *, status: int, hint: str = "") -> Page:
    """A page that says why there is nothing else."""
    return Page("problem.html", title, data={"problem": what, "hint": hint}, status=status)
