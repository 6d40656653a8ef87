"""Refuses outputs by expression (`regex|EXPR`) where nobody could tell which files are theirs; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from services.task_definition.tasks.policy.event_service import states_event_service
from services.task_definition.tasks.policy.task_parameters.table import TaskParameters
from services.task_definition.tasks.policy.task_spec_items import Item
from shared.model.expression import InvalidExpression, parse_expression
from shared.model.outputs_by_expression import BY_EXPRESSION
from shared.model.problems import FieldProblem
from shared.model.task_spec_problems import problem

#: what is put in for each job or task
_PUT_IN_LATER = re.compile(r"\$\{[A-Za-z0-9_/]+\}|\$JEDITASKID")


def expression_problems(field: str, item: Item, most_characters: int) -> Iterable[FieldProblem]:
    """Tell what is wrong with one expression."""
    if item.param_type != "output":
        yield problem(field, item.value, f"{BY_EXPRESSION} is allowed for outputs only: a log is one file; name it")
    if "," in item.value or any(one.isspace() for one in item.value):
        told = (
            f"allowed after {BY_EXPRESSION}: an expression without commas and blanks, as pilots get a list with commas"
        )
        yield problem(field, item.value, told)
    if len(item.value) > most_characters:
        yield problem(field, item.value, f"allowed: an expression of at most {most_characters} characters")
    expression = _PUT_IN_LATER.sub("1", item.value.removeprefix(BY_EXPRESSION))
    if not expression:
        yield problem(
            field, item.value, f"allowed after {BY_EXPRESSION}: an expression that is found in names of files"
        )
        return
    try:
        parse_expression(expression)
    except InvalidExpression as error:
        yield problem(field, item.value, str(error))


def by_expression_problems(given: TaskParameters) -> Iterable[FieldProblem]:
    """Refuse them beside whatever needs the names of outputs before they are written."""
    seen: set[str] = set()
    for index, item in enumerate(given.job_parameters):
        if not (item.param_type == "output" and item.is_by_expression):
            continue
        field = f"jobParameters.{index}.value"
        for name, is_stated in (
            ("mergeOutput", given.merge_output),
            ("event service", states_event_service(given)),
            ("useJobCloning", given.cloning is not None),
            ("loadXML", given.load_xml is not None),
        ):
            if is_stated:
                told = f"not allowed together with {name}, which needs the names of outputs before they are written"
                yield problem(field, item.value, f"{told}; name each file")
        if item.value in seen:
            yield problem(field, item.value, "is there twice; allowed: each expression once, as a file has one dataset")
        seen.add(item.value)
