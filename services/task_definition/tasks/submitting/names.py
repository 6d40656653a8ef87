"""Which names a task writes, and whether it may."""

from __future__ import annotations

import asyncpg

from services.task_definition.data.owning import foreign_names, scopes_of
from services.task_definition.data.policy.scopes import ForeignName, NameWanted, NameWriter, takeable_scopes, wanted
from services.task_definition.tasks.policy.duplication import fields_of_outputs
from services.task_definition.tasks.policy.outputs import TASK_ID_PLACEHOLDER, plan_outputs
from services.task_definition.tasks.policy.task_spec import TaskSpec
from services.task_definition.tasks.store.tasks import TaskRow


async def foreign_task_name(connection: asyncpg.Connection, spec: TaskSpec, writer: NameWriter) -> list[ForeignName]:
    """The name of a task where it begins with a scope of somebody else.

    It is theirs like that of a dataset. Each VO has names of tasks of its own: whoever has the name of a scope may name
    tasks by it, although its datasets belong to somebody of another VO.
    """
    name = spec.parameters.task_name
    names = [wanted("taskName", name)] if name.startswith("user.") else []
    own = takeable_scopes(writer.user_name, writer.vo)
    found = await foreign_names(connection, names, writer)
    return [one for one in found if one.cause != "another VO" or one.scope not in own]


def task_as_writer(task: TaskRow, submitted: TaskSpec) -> NameWriter:
    """A task that is refined: it may write where its submission was allowed to, and in its owner's scopes.

    Of these it takes what whoever submitted it may take.
    """
    return NameWriter(
        task.vo,
        task.user_name,
        may_write=lambda whose: whose.owner == task.user_name,
        is_owner=task.submitted_by == task.user_name,
        approved=frozenset(scopes_of(outputs_wanted(submitted, task.task_id))),
    )


def outputs_wanted(spec: TaskSpec, task_id: int) -> list[NameWanted]:
    """What a task writes: its datasets, and the containers that they are put into."""
    given = fields_of_outputs(spec).items()
    fields, found = {name.replace(TASK_ID_PLACEHOLDER, str(task_id)): field for name, field in given}, []
    for one in plan_outputs(spec, task_id).datasets:
        field = fields.get(one.final or one.name) or fields.get(one.container or "", "taskName")
        found.append(wanted(field, one.name, one.scope))
        if one.container is not None:
            found.append(wanted(field, one.container))
    return found
