"""Checks a task's fields item by item: one check of a long list blocks the interpreter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from services.task_definition.tasks.policy.task_parameters.kinds import MOST_ITEMS
from services.task_definition.tasks.policy.task_parameters.refused import REFUSED, REFUSED_OF_ITEMS, SAYS_NO
from services.task_definition.tasks.policy.task_parameters.table import TaskParameters, known_fields
from services.task_definition.tasks.policy.task_spec_items import FileName, Item
from services.task_definition.tasks.policy.task_spec_problems import problems_of_task
from shared.model.batches import batches
from shared.model.problems import FieldProblem
from shared.model.steps import Steps
from shared.model.task_spec_problems import problem

#: names of files that are checked in one step
_FILES_TOGETHER = 500
#: fields that say which streams a command line may name
_STREAMS_ARE_OF = {"jobParameters", "log", "mergeSpec", "esmergeSpec", "buildSpec"}
#: for fields that every task needs and no placeholder reads
_STAND_INS = {"taskName": "a", "vo": "a", "prodSourceLabel": "managed", "taskType": "prod"}
_FIELDS_OF_ITEMS = [field.alias or name for name, field in Item.model_fields.items()]
_FILE_NAMES = TypeAdapter(list[FileName])


def check_items(rest: dict[str, Any]) -> Steps[list[FieldProblem]]:
    """Check each item by itself; put right ones in place of what was sent, wrong ones with the others."""
    given = rest.get("jobParameters")
    if not isinstance(given, list):
        return []
    rest["jobParameters"] = right = list[Item]()
    if len(given) > MOST_ITEMS:
        return [problem("jobParameters", given, f"allowed: at most {MOST_ITEMS} of them")]
    wrong: list[FieldProblem] = []
    for place, one in enumerate(given):
        yield
        item = yield from _item(f"jobParameters.{place}.", one, wrong)
        if item is not None:
            right.append(item)
    return wrong


def _item(prefix: str, given: Any, wrong: list[FieldProblem]) -> Steps[Item | None]:
    """One item; its list of files may be long."""
    if isinstance(given, dict):
        told = [name for name in given if name in REFUSED_OF_ITEMS and given[name] not in SAYS_NO]
        wrong += [problem(f"{prefix}{name}", given[name], REFUSED_OF_ITEMS[name]) for name in told]
        given = {name: value for name, value in given.items() if name not in REFUSED_OF_ITEMS}
    stated = given.get("files") if isinstance(given, dict) else None
    files: list[Any] = stated if isinstance(stated, list) else []
    is_long = len(files) > _FILES_TOGETHER
    n_wrong, n_checked, checked = len(wrong), 0, list[str]()
    for some in batches(files, _FILES_TOGETHER) if is_long else ():
        yield
        try:
            checked += _FILE_NAMES.validate_python(some)
        except ValidationError as error:
            wrong += problems_of_task(error, (), f"{prefix}files.", n_checked)
        n_checked += len(some)
    try:
        item = Item.model_validate({**given, "files": checked[:1]} if is_long else given)
    except ValidationError as error:
        wrong += problems_of_task(error, _FIELDS_OF_ITEMS, prefix, model=Item)
        return None
    if len(wrong) > n_wrong:
        return None
    return item.model_copy(update={"files": checked}) if is_long else item


def model_of(rest: Mapping[str, Any], wrong: list[FieldProblem]) -> tuple[TaskParameters | None, list[FieldProblem]]:
    """The fields of a task whose items were checked; or None and everything that is wrong.

    Problems are in the order of the fields (the unsupported first).
    """
    model = None
    try:
        model = TaskParameters.model_validate(rest)
        others = []
    except ValidationError as error:
        others = problems_of_task(error, known_fields(), model=TaskParameters)
    if not wrong and model is not None:
        return model, []
    items_told = any(one.field.startswith("jobParameters") for one in wrong)
    others = [one for one in others if not (items_told and one.field == "jobParameters")]
    order = dict.fromkeys(REFUSED, -1)
    order |= {field.alias or name: place for place, (name, field) in enumerate(TaskParameters.model_fields.items())}
    found = sorted([*wrong, *others], key=lambda one: order.get(one.field.partition(".")[0], len(order)))
    return (None, found) if others or items_told else (model, [])


def readable_part(rest: Mapping[str, Any], wrong: Iterable[FieldProblem]) -> TaskParameters | None:
    """A malformed task without its wrong fields, so that the others can be checked as well.

    `rest` has its items as `check_items` left them. None: the items, or what they refer to, are wrong themselves, or a
    field is missing that every task needs and that others depend on.
    """
    names = {one.field.partition(".")[0] for one in wrong}
    if names & _STREAMS_ARE_OF:
        return None
    readable = {name: value for name, value in rest.items() if name not in names}
    try:
        return TaskParameters.model_validate({**_STAND_INS, **readable})
    except ValidationError:
        return None
