"""Reads a submitted form once: its values, as far as they are right, and its problems.

Items are checked one by one: one check of a long list blocks the interpreter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError

from services.task_definition.tasks.policy.task_parameters.kinds import MOST_ITEMS
from services.task_definition.tasks.policy.task_parameters.refused import REFUSED, REFUSED_OF_ITEMS, SAYS_NO
from services.task_definition.tasks.policy.task_parameters.table import TaskParameters, known_fields, name_in_form
from services.task_definition.tasks.policy.task_spec_items import FileName, Item
from services.task_definition.tasks.policy.task_spec_problems import problems_of_task
from shared.model.batches import batches
from shared.model.problems import FieldProblem
from shared.model.steps import Steps
from shared.model.task_spec_problems import problem, unstorable_in_steps
from shared.task.types import flag

#: names of files that are checked in one step
_FILES_TOGETHER = 500
_ITEMS = "jobParameters"
#: for fields that every task needs, where they are wrong: nobody can read them
_STAND_INS: Mapping[str, Any] = {
    "taskName": "a", "vo": "a", "prodSourceLabel": "managed", "taskType": "prod",
    _ITEMS: [{"type": "constant", "value": "a"}],
}  # fmt: skip
_FIELDS_OF_ITEMS = [field.alias or name for name, field in Item.model_fields.items()]
_FILE_NAMES = TypeAdapter(list[FileName])
#: JSON name -> attribute, in the order of the table
_ATTRIBUTES = {field.alias or name: name for name, field in TaskParameters.model_fields.items()}


class Unreadable(Exception):
    """A check asked for a field whose value is wrong: it has nothing to say until that is mended."""


class ReadableParameters(TaskParameters):
    """The fields of a malformed task; one that is wrong raises Unreadable."""

    def __getattr__(self, name: str) -> Any:
        if name in TaskParameters.model_fields:
            raise Unreadable(name)
        raise AttributeError(name)


@dataclass(frozen=True)
class Form:
    """What a submitted form says.

    `given` are its fields, `items` the right ones of jobParameters by their place. `problems` are those of single
    fields. Where `is_whole` is false, a wrong field of `given` raises Unreadable.
    """

    given: TaskParameters
    items: Sequence[tuple[int, Item]]
    problems: Sequence[FieldProblem]
    is_whole: bool


def form_in_steps(parameters: Mapping[str, Any]) -> Steps[Form]:
    """Read a form, an item of its lists in each step.

    Problems are in the order of the fields: first those that are refused, last texts that cannot be stored.
    """
    wrong = [
        problem(name, value, REFUSED[name])
        for name, value in parameters.items()
        if name in REFUSED and flag(value) not in SAYS_NO
    ]
    n_refused = len(wrong)
    rest = {name: value for name, value in parameters.items() if name not in REFUSED}
    unstorable = yield from unstorable_in_steps(parameters)
    items = yield from _items(rest.get(_ITEMS), wrong)
    if isinstance(rest.get(_ITEMS), list):
        rest[_ITEMS] = [item for _, item in items]
    try:
        model, others = TaskParameters.model_validate(rest), []
    except ValidationError as error:
        model, others = None, problems_of_task(error, known_fields(), model=TaskParameters)
    if len(wrong) > n_refused:  # too few items are left because the others are wrong
        others = [one for one in others if one.field != _ITEMS]
    order = dict.fromkeys(REFUSED, -1) | {name: place for place, name in enumerate(_ATTRIBUTES)}
    found = sorted([*wrong, *others], key=lambda one: order.get(_outermost(one), len(order)))
    malformed = [one for one in found if _outermost(one) not in REFUSED]
    told = {one.field for one in found}
    found += [one for one in unstorable if one.field not in told]
    if model is not None and not malformed and not unstorable:
        return Form(model, items, found, is_whole=True)
    unreadable = {_outermost(one) for one in (*malformed, *unstorable)}
    places = {one.field.partition(".")[2].partition(".")[0] for one in unstorable if _outermost(one) == _ITEMS}
    right = [(place, item) for place, item in items if str(place) not in places]
    return Form(_readable(rest, unreadable), right, found, is_whole=False)


def as_far_as_readable(
    check: Callable[[TaskParameters], Iterable[FieldProblem | None]], given: TaskParameters
) -> Iterator[FieldProblem | None]:
    """What a check finds until it asks for a field that is wrong itself."""
    try:
        yield from check(given)
    except Unreadable:
        return


def _outermost(one: FieldProblem) -> str:
    """The parameter that a problem is about: jobParameters of jobParameters.0.value."""
    return one.field.partition(".")[0]


def _readable(rest: Mapping[str, Any], unreadable: set[str]) -> TaskParameters:
    """The fields of a form but for those that are not readable."""
    known = _ATTRIBUTES.keys() - unreadable
    right = {name: value for name, value in rest.items() if name_in_form(str(name)) in known}
    found = ReadableParameters.model_validate({**_STAND_INS, **right})
    for name in unreadable & _ATTRIBUTES.keys():
        found.__dict__.pop(_ATTRIBUTES[name], None)
    return found


def _items(given: Any, wrong: list[FieldProblem]) -> Steps[list[tuple[int, Item]]]:
    """Each item that is right with its place; what is wrong with the others goes into `wrong`."""
    if not isinstance(given, list):
        return []
    if len(given) > MOST_ITEMS:
        wrong.append(problem(_ITEMS, given, f"allowed: at most {MOST_ITEMS} of them"))
        return []
    right: list[tuple[int, Item]] = []
    for place, one in enumerate(given):
        yield
        item = yield from _item(f"{_ITEMS}.{place}.", one, wrong)
        if item is not None:
            right.append((place, item))
    return right


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
