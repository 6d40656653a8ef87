"""Other tasks that a task refers to: of its VO, and those whose details its submitter may read.

Any other is told like one that does not exist.
"""

from __future__ import annotations

import asyncpg

from services.task_definition.tasks.policy.task_spec import TaskSpec
from services.task_definition.tasks.store import tasks as store
from services.task_definition.tasks.store.tasks import NamedTask
from shared.auth import Caller, access
from shared.auth.access import Whose
from shared.model.problems import FieldProblem
from shared.model.task_spec_problems import problem

_CORRUPTED = ("failed", "broken", "aborted")


async def problems_of_references(connection: asyncpg.Connection, spec: TaskSpec, caller: Caller) -> list[FieldProblem]:
    """Parents (parent_tid) and tasks whose files are left out (skipFilesUsedBy)."""
    given = spec.parameters
    wanted = [("parent_tid", given.parent_task_id)] if given.parent_task_id is not None else []
    wanted += [("skipFilesUsedBy", one) for one in given.skip_files_used_by or ()]
    if not wanted:
        return []
    known = await store.named(connection, sorted({task_id for _, task_id in wanted}))
    readable = {one.task_id: one for one in known if may_refer(caller, one, given.vo)}
    allowed = f"allowed: the id of a task of {given.vo} whose details {caller.name} may read"
    found = [problem(field, task_id, allowed) for field, task_id in wanted if task_id not in readable]
    parent = readable.get(given.parent_task_id or 0)
    if parent is not None and parent.status in _CORRUPTED:
        found.append(problem("parent_tid", parent.task_id, f"the parent is {parent.status}"))
    return found


def may_refer(caller: Caller, other: NamedTask, vo: str) -> bool:
    """Whether a task of a VO that the caller submits may name another one."""
    return other.vo == vo and access.DETAILS.allows(caller, Whose.of(other.user_name, other.vo))
