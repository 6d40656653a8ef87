"""Lists what else is wrong with a malformed task, so that its owner learns of every problem at once."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import asyncpg
from pydantic import ValidationError

from services.task_definition.desk.policy.work_queues import unknown_work_queue
from services.task_definition.tasks.policy.preprocessing import is_unknown_yet
from services.task_definition.tasks.policy.shares import unknown_share
from services.task_definition.tasks.policy.task_parameters.kinds import MOST_ITEMS
from services.task_definition.tasks.policy.task_spec_items import Item
from services.task_definition.tasks.store import tasks as store
from services.task_definition.tasks.submitting.rights import may_submit_for
from shared.auth import Caller
from shared.brokerage.matchmaking import requirements_in
from shared.catalogue.port import CatalogueReader
from shared.model.problems import FieldProblem
from shared.model.steps import Steps
from shared.model.task_spec_problems import problem, unstorable_values
from shared.task.stored import name_of
from shared.web.slices import in_slices

UNKNOWN_DATASET = "allowed: a dataset or container of the catalogue"


def duplicate_name(name: str, existing: int | None) -> FieldProblem:
    """The same name twice."""
    return problem("taskName", name, f"a task of this name exists{f' (task {existing})' if existing else ''}")


def unreadable_requirements(text: Any) -> list[FieldProblem]:
    """The task's own expression about sites must be one that matchmaking can read."""
    if not isinstance(text, str) or not text or unstorable_values(text):
        return []
    try:
        requirements_in(text)
    except ValueError as error:
        reason = str(error).removeprefix("requirements: ").removeprefix(repr(text)).lstrip(" :")
        return [problem("requirements", text, reason)]
    return []


async def problems_of_readable_parts(
    connection: asyncpg.Connection,
    catalogue: CatalogueReader,
    parameters: Any,
    caller: Caller,
    vos_outside: Collection[str] = (),
) -> list[FieldProblem]:
    """Taken names that must be unique, unknown shares, work queues and input, in what can be read."""
    if not isinstance(parameters, Mapping):
        return []
    found = unreadable_requirements(parameters.get(name_of("requirements")))
    gshare, work_queue, vo = (_name(parameters, one) for one in ("gshare", "workQueueName", "vo"))
    if gshare or work_queue:
        sharing = await store.sharing(connection)
        found += unknown_share(gshare, sharing.nodes) if gshare else []
        found += unknown_work_queue(work_queue, vo, sharing.work_queues) if work_queue and vo else []
    name = _name(parameters, "taskName")
    if parameters.get("uniqueTaskName") and name:
        existing = await store.same_name(connection, name, vo)
        if existing is not None:
            found.append(duplicate_name(name, None))
    if (
        not may_submit_for(caller, vo)
        or parameters.get(name_of("wait_input"))
        or parameters.get("parent_tid") is not None
        or parameters.get("vo") in vos_outside
    ):
        return found
    items = await in_slices(_items(parameters))
    inputs = [(index, one) for index, item in items if item.param_type == "input" for one in item.datasets()]
    known = await catalogue.find(connection, sorted({one for _, one in inputs}), vo) if inputs else {}
    found += [
        problem(f"jobParameters.{index}.dataset", one, UNKNOWN_DATASET)
        for index, one in inputs
        if one not in known and not is_unknown_yet(one)
    ]
    return found


def _name(parameters: Mapping[str, Any], field: str) -> str:
    """A name as it was sent; "" if there is none that can be looked up."""
    name = parameters.get(field)
    return name if isinstance(name, str) and not unstorable_values(name) else ""


def _items(parameters: Mapping[str, Any]) -> Steps[list[tuple[int, Item]]]:
    given = parameters.get("jobParameters")
    found = []
    for index, one in enumerate(given[:MOST_ITEMS] if isinstance(given, list) else ()):
        yield
        if unstorable_values(one):
            continue
        try:
            found.append((index, Item.model_validate(one)))
        except ValidationError:
            continue
    return found
