"""Whether anybody knows the VO of a task. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Collection

from shared.auth import Caller
from shared.model.problems import FieldProblem
from shared.model.task_spec_problems import problem


def unknown_vo(vo: str, known: Collection[str], caller: Caller) -> list[FieldProblem]:
    """A VO that neither the caller's token nor anything of the installation names, with the nearest one.

    Where no VO is known at all nobody can tell. Example: cmss, where there are atlas and cms.
    """
    if not known or vo in known or (caller.vos is not None and vo in caller.vos):
        return []
    near = difflib.get_close_matches(vo, sorted(known), n=1, cutoff=0.5)
    meant = f"; did you mean {near[0]}?" if near else ""
    by = "a token, a queue (vo_name), an account or an import of the catalogue makes another one known"
    return [problem("vo", vo, f"no such VO is known{meant}; known: {', '.join(sorted(known))}; {by}")]
