"""One page, before it has a form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Page:
    """`data` is what JSON has; `away`: parts that could not be had, and why.

    `verb`: of the command line, which prints the same. `shown`: what the template needs besides, such as pictures.
    `refresh_s`: a browser with scripts asks again for the part with the id `live` so often, hints or not.
    `about`: subjects of which hints may be given, as the API told them to this visitor in full; the part with the id
    `live` is asked for again at each of them. `is_list`: it says how many have changed instead, and does not jump;
    `others`: the subject after which it may have other rows, else it may have some after a while.
    """

    template: str
    title: str
    verb: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    away: Mapping[str, str] = field(default_factory=dict)
    shown: Mapping[str, Any] = field(default_factory=dict)
    status: int = 200
    refresh_s: int = 0
    about: Sequence[str] = ()
    is_list: bool = False
    others: str = ""


def problem_page(title: str, what: str, *, status: int, hint: str = "") -> Page:
    """A page that says why there is nothing else."""
    return Page("problem.html", title, data={"problem": what, "hint": hint}, status=status)
