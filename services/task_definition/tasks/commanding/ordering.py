"""Changes priority and share of a task.

Its new jobs have them at once, its waiting jobs follow (job_dispatch). Owners may set priorities up to what their class
allows (1000, with super privilege 1500), production and operators any; shares are for production and operators.
"""

from __future__ import annotations

from typing import Any

from services.task_definition.tasks.policy import commands as rules
from services.task_definition.tasks.store import commands as store_commands
from services.task_definition.tasks.store import tasks as store
from services.task_definition.tasks.store.tasks import TaskRow
from shared.auth import Caller
from shared.db.unit_of_work import UnitOfWork
from shared.model.grid_preferences import most_priority
from shared.model.priorities import HIGHEST, LOWEST
from shared.model.task_spec_problems import problem

CHANGES = ("change_priority", "change_share")


async def change_order(work: UnitOfWork, task: TaskRow, verb: str, details: Any, caller: Caller) -> rules.Reply:
    """Carry out one of `CHANGES`, or refuse it.

    The caller has locked the task's row, records the command and announces it.
    """
    if verb == "change_priority":
        return await _change_priority(work, task, details.get("priority"), caller)
    return await _change_share(work, task, details.get("share"))


async def _change_priority(work: UnitOfWork, task: TaskRow, priority: Any, caller: Caller) -> rules.Reply:
    if type(priority) is not int or not LOWEST <= priority <= HIGHEST:
        return rules.refused_value("priority", priority, f"allowed: a whole number from {LOWEST} to {HIGHEST}")
    if not caller.may_for(task.vo, "production"):
        grid_pref, working_group = await store_commands.permissions(work, task.task_id)
        most = most_priority(grid_pref, has_group=bool(working_group))
        if priority > most:
            told = problem("priority", priority, f"needs the role production; allowed: at most {most}")
            return rules.Reply(rules.NOT_PERMITTED, str(told), (told,))
    await store_commands.change_priority(work, task.task_id, priority)
    return rules.Reply(rules.OK, f"task {task.task_id} has priority {priority}; its waiting jobs follow")


async def _change_share(work: UnitOfWork, task: TaskRow, share: Any) -> rules.Reply:
    nodes = (await store.sharing(work.connection)).nodes
    parents = {node.parent for node in nodes}
    leaves = [node.name for node in nodes if node.name not in parents]
    if share not in leaves:
        return rules.refused_value("share", share, f"allowed: a leaf of the shares: {', '.join(leaves) or 'none'}")
    await store_commands.change_share(work, task.task_id, share)
    parameters = await store.parameters(work.connection, task.task_id)
    await store_commands.change_parameters(work, task.task_id, {**parameters, "gshare": share})
    return rules.Reply(rules.OK, f"task {task.task_id} is in share {share}; its waiting jobs follow")
