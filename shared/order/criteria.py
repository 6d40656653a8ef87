"""Conditions about task queues that people write, such as `user_group = 'prod' AND tags = 'GPU'`.

They are conditions of SQL: comparisons of an attribute with a text or number, IN, LIKE, AND, OR, NOT. An attribute with
several values equals each of them. A condition is read once; asking it runs nothing but comparisons.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import sqlglot
from sqlglot import exp

from shared.model.expression import InvalidExpression, parse_expression
from shared.order.identity import TaskQueueIdentity

LONGEST = 1000
#: names of attributes, in the field's spelling too, and what of a task queue they are
ATTRIBUTES: Mapping[str, str] = {
    "vo": "vo", "owner": "user_name", "user_name": "user_name", "ownergroup": "user_group", "user_group": "user_group",
    "cputime": "cpu_segment_s", "cpu_segment_s": "cpu_segment_s", "platform": "platforms", "platforms": "platforms",
    "tag": "tags", "tags": "tags", "jobtype": "job_types", "job_types": "job_types", "sites": "sites",
    "bannedsites": "banned_sites", "banned_sites": "banned_sites",
}  # fmt: skip
ALLOWED = (
    "allowed: comparisons (=, <>, <, <=, >, >=, IN, LIKE) of "
    f"{', '.join(dict.fromkeys(ATTRIBUTES.values()))} with texts in single quotes or numbers, joined by AND, OR, NOT"
)
_Asked = Callable[[TaskQueueIdentity], bool]
_COMPARISONS: Mapping[type[exp.Expression], Callable[[Any, Any], bool]] = {
    exp.EQ: lambda found, wanted: found == wanted,
    exp.NEQ: lambda found, wanted: found != wanted,
    exp.LT: lambda found, wanted: found < wanted,
    exp.LTE: lambda found, wanted: found <= wanted,
    exp.GT: lambda found, wanted: found > wanted,
    exp.GTE: lambda found, wanted: found >= wanted,
}


class InvalidCriteria(ValueError):
    """A condition that cannot be used; the message says why and what is allowed."""


@dataclass(frozen=True)
class Criteria:
    """A condition that was read."""

    text: str
    _holds: _Asked = field(repr=False, compare=False)

    def hold_for(self, identity: TaskQueueIdentity) -> bool:
        """Whether a task queue is one of those that are meant."""
        return self._holds(identity)


@lru_cache(maxsize=1024)
def parse_criteria(text: str) -> Criteria:
    """Read a condition. Raises InvalidCriteria.

    Example: `Owner = 'ann' OR JobType LIKE 'MC%'` holds for the queues of ann and for jobs whose type begins with MC.
    """
    if not text.strip() or len(text) > LONGEST:
        raise InvalidCriteria(f"{text[:80]!r}: 1 to {LONGEST} characters are allowed")
    try:
        return Criteria(text, _condition(sqlglot.parse_one(text, read="postgres")))
    except InvalidCriteria as error:
        raise InvalidCriteria(f"{text!r}: {error}; {ALLOWED}") from None
    except (sqlglot.errors.SqlglotError, RecursionError) as error:
        first = str(error).splitlines()[0] if str(error) else "is nested too deep"
        raise InvalidCriteria(f"{text!r} is no condition: {first}; {ALLOWED}") from None


def of_value(attribute: str, value: str) -> Criteria:
    """The condition that an attribute has one value, as the field writes limits. Raises InvalidCriteria."""
    name = attribute.lower()
    if name not in ATTRIBUTES:
        raise InvalidCriteria(f"{attribute!r} is not an attribute of a task queue; {ALLOWED}")
    quoted = "'" + value.replace("'", "''") + "'"
    return parse_criteria(f"{name} = {value if ATTRIBUTES[name] == 'cpu_segment_s' else quoted}")


def _condition(node: Any) -> _Asked:
    """What a part of the tree asks."""
    if isinstance(node, exp.Paren):
        return _condition(node.this)
    if isinstance(node, exp.And | exp.Or):
        left, right = _condition(node.this), _condition(node.expression)
        if isinstance(node, exp.And):
            return lambda one: left(one) and right(one)
        return lambda one: left(one) or right(one)
    if isinstance(node, exp.Not):
        inner = _condition(node.this)
        return lambda one: not inner(one)
    if isinstance(node, exp.In) and node.expressions:
        return _any(_attribute(node.this), _values(node))
    if isinstance(node, exp.Like):
        return _like(_attribute(node.this), str(_value(node.expression)))
    if type(node) in _COMPARISONS:
        return _comparison(type(node), _attribute(node.this), _value(node.expression))
    raise InvalidCriteria(f"{node.sql()} is not such a condition")


def _attribute(node: exp.Expression) -> str:
    if not isinstance(node, exp.Column) or node.table or node.name.lower() not in ATTRIBUTES:
        raise InvalidCriteria(f"{node.sql()} is not an attribute of a task queue")
    return ATTRIBUTES[node.name.lower()]


def _value(node: exp.Expression) -> str | float:
    if not isinstance(node, exp.Literal):
        raise InvalidCriteria(f"{node.sql()} is neither a text nor a number")
    return str(node.this) if node.is_string else float(node.this)


def _values(node: exp.In) -> frozenset[str | float]:
    return frozenset(_value(one) for one in node.expressions)


def _found(one: TaskQueueIdentity, name: str) -> tuple[Any, ...]:
    value = getattr(one, name)
    return value if isinstance(value, tuple) else (value,)


def _any(name: str, wanted: frozenset[str | float]) -> _Asked:
    return lambda one: not wanted.isdisjoint(_found(one, name))


def _like(name: str, pattern: str) -> _Asked:
    if name == "cpu_segment_s":
        raise InvalidCriteria(f"{name} is a number, which LIKE does not compare")
    parts = {"%": "(?s:.*)", "_": "(?s:.)"}
    try:
        expression = parse_expression("".join(parts.get(letter, re.escape(letter)) for letter in pattern))
    except InvalidExpression as error:
        raise InvalidCriteria(f"LIKE {pattern!r}: {error}") from None
    return lambda one: any(expression.matches_all_of(value) for value in _found(one, name))


def _comparison(kind: type[exp.Expression], name: str, wanted: str | float) -> _Asked:
    if isinstance(wanted, str) == (name == "cpu_segment_s"):
        raise InvalidCriteria(f"{name} is a {'number' if name == 'cpu_segment_s' else 'text'}, and {wanted!r} is not")
    compare = _COMPARISONS[kind]
    if kind is exp.NEQ:  # none of its values is that one
        return lambda one: all(compare(value, wanted) for value in _found(one, name))
    return lambda one: any(compare(value, wanted) for value in _found(one, name))
