"""Criteria in SQL's language, asked in Python and as a statement alike (JEDI: Work queues).

Columns and operators are those that are listed, values are literals or bind variables: nothing of the text itself
reaches a statement. Null is neither true nor false, as in SQL; criteria hold where they are true.

Example: `processingType IN (:p1, :p2)` with `p1:evgen,p2:simul` holds for {"processing_type": "evgen"}, and is
`processing_type IN ($1, $2)` with the values evgen and simul.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

LONGEST = 2000
DEEPEST = 50
_NUMBER = re.compile(r"-?\d{1,18}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

Facts = Mapping[str, Any]
#: true, false, or unknown
Truth = bool | None


class WrongCriteria(ValueError):
    """Why criteria cannot be used, with the place in their text."""


@dataclass(frozen=True)
class CriteriaColumn:
    """A column that criteria may name: its fact, how a statement reads it, and the kind of its values."""

    name: str
    fact: str
    sql: str
    kind: Literal["text", "number"] = "text"


@dataclass
class StatementValues:
    """Values of a statement, from $`first` on."""

    first: int = 1
    values: list[str | int] = field(default_factory=list)

    def place(self, value: str | int) -> str:
        self.values.append(value)
        cast = "bigint" if isinstance(value, int) else "text"
        return f"${self.first + len(self.values) - 1}::{cast}"


@dataclass(frozen=True)
class _Test:
    """A column compared with values; one of `_TESTS`. In Python a fact may have several values, a tuple."""

    column: CriteriaColumn
    how: str
    values: tuple[str | int, ...] = ()

    def truth(self, facts: Facts) -> Truth:
        found = facts.get(self.column.fact)
        if self.how == "IS NULL":
            return found is None
        if isinstance(found, tuple):  # each of its values counts; none of them is what it differs from
            every = all if self.how == "<>" else any
            return every(_TESTS[self.how](one, self.values) for one in found)
        return None if found is None else _TESTS[self.how](found, self.values)

    def sql(self, parameters: StatementValues) -> str:
        if self.how == "IS NULL":
            return f"({self.column.sql}) IS NULL"
        places = ", ".join(parameters.place(value) for value in self.values)
        return f"({self.column.sql}) {self.how} {f'({places})' if self.how == 'IN' else places}"


@dataclass(frozen=True)
class _Joined:
    """AND, OR or NOT of other conditions."""

    how: Literal["AND", "OR", "NOT"]
    parts: tuple[_Test | _Joined, ...]

    def truth(self, facts: Facts) -> Truth:
        found = [part.truth(facts) for part in self.parts]
        if self.how == "NOT":
            return None if found[0] is None else not found[0]
        decides = self.how == "OR"
        return decides if decides in found else (None if None in found else not decides)

    def sql(self, parameters: StatementValues) -> str:
        parts = [f"({part.sql(parameters)})" for part in self.parts]
        return f"NOT {parts[0]}" if self.how == "NOT" else f" {self.how} ".join(parts)


@dataclass(frozen=True)
class SqlCriteria:
    """What a row must be like."""

    text: str
    _root: _Test | _Joined

    def hold(self, facts: Facts) -> bool:
        """Whether they are true of these facts; an unknown fact is null."""
        return self._root.truth(facts) is True

    def sql(self, first: int = 1) -> tuple[str, list[str | int]]:
        """The condition of a statement whose parameters from $`first` on are the values."""
        parameters = StatementValues(first)
        return self._root.sql(parameters), parameters.values


def parse_variables(text: str) -> dict[str, str]:
    """Values of bind variables, written as `p1:evgen,p2:simul`. Raises WrongCriteria."""
    found: dict[str, str] = {}
    for part in text.split(","):
        if not part.strip():
            continue
        name, separator, value = part.strip().partition(":")
        if not separator or not _VARIABLE.fullmatch(name):
            raise WrongCriteria(f"variables: {part.strip()!r} is not NAME:VALUE, separated by commas")
        if name in found:
            raise WrongCriteria(f"variables: {name} is given twice")
        found[name] = value
    return found


def parse_criteria(text: str, variables: Mapping[str, str], columns: Sequence[CriteriaColumn]) -> SqlCriteria:
    """Criteria over these columns. Raises WrongCriteria: what is wrong where, and what is allowed."""
    if len(text) > LONGEST:
        raise WrongCriteria(f"criteria: {len(text)} characters, at most {LONGEST} are allowed")
    try:
        statements = sqlglot.parse(text, read="postgres")
    except SqlglotError as error:
        found = getattr(error, "errors", None) or [{"col": "?"}]  # in words of the parser, which nobody typed
        where = f"column {found[0].get('col') or '?'}"
        raise WrongCriteria(f"criteria, {where}: this cannot be read as a condition; allowed: {ALLOWED}") from None
    except RecursionError:
        raise WrongCriteria("criteria: nested too deeply") from None
    if len(statements) != 1 or statements[0] is None:
        raise WrongCriteria("criteria: one condition is allowed, and nothing after it")
    reader = _CriteriaReader(text, variables, {one.name.lower(): one for one in columns})
    criteria = SqlCriteria(text, reader.condition(statements[0]))
    unused = sorted(variables.keys() - reader.used)
    if unused:
        raise WrongCriteria(f"variables: {', '.join(unused)} not in the criteria")
    return criteria


class _CriteriaReader:
    """From sqlglot's tree to conditions, what is not listed is refused."""

    def __init__(self, text: str, variables: Mapping[str, str], columns: Mapping[str, CriteriaColumn]) -> None:
        self._text, self._variables, self._columns = text, variables, columns
        self.used: set[str] = set()

    def condition(self, node: Any, depth: int = 0) -> _Test | _Joined:
        if depth > DEEPEST:
            raise WrongCriteria("criteria: nested too deeply")
        if isinstance(node, exp.Paren):
            return self.condition(node.this, depth + 1)
        if isinstance(node, exp.Not):
            return _Joined("NOT", (self.condition(node.this, depth + 1),))
        if isinstance(node, exp.And | exp.Or):
            parts = tuple(self.condition(one, depth + 1) for one in _operands(node))
            return _Joined("AND" if isinstance(node, exp.And) else "OR", parts)
        return self._test(node)

    def _test(self, node: Any) -> _Test | _Joined:
        """A comparison; whatever sqlglot says of it that is not known here is refused, not left out."""
        given = {name for name, value in node.args.items() if value}
        if given - _PARTS:
            self._refuse(node, f"{_name(node)} with {', '.join(sorted(given - _PARTS))} is not allowed")
        test = self._plain_test(node)
        return _Joined("NOT", (test,)) if "negate" in given else test

    def _plain_test(self, node: Any) -> _Test | _Joined:
        if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
            return _Test(self._column(node.this), "IS NULL")
        if isinstance(node, exp.In) and node.expressions:
            column = self._column(node.this)
            return _Test(column, "IN", tuple(self._value(column, one) for one in node.expressions))
        if isinstance(node, exp.Between):
            column = self._column(node.this)
            low, high = (self._value(column, node.args[name]) for name in ("low", "high"))
            return _Joined("AND", (self._compared(column, ">=", low), self._compared(column, "<=", high)))
        how = next((how for kind, how in _OPERATORS if type(node) is kind), None)
        if how is None:
            self._refuse(node, f"{_name(node)} is not allowed; allowed: {ALLOWED}")
        column = self._column(node.this)
        return self._compared(column, str(how), self._value(column, node.expression))

    def _compared(self, column: CriteriaColumn, how: str, value: str | int) -> _Test:
        ordering = how not in ("=", "<>", "LIKE")
        if ordering and column.kind == "text":
            raise WrongCriteria(f"criteria: {column.name} {how}: texts have no order here; allowed: =, <>, LIKE, IN")
        if how == "LIKE" and column.kind != "text":
            raise WrongCriteria(f"criteria: {column.name} LIKE: the column is a number")
        return _Test(column, how, (value,))

    def _column(self, node: Any) -> CriteriaColumn:
        known = ", ".join(one.name for one in self._columns.values())
        if not isinstance(node, exp.Column) or node.table or not isinstance(node.this, exp.Identifier):
            self._refuse(node, f"{_name(node)} stands where a column must; allowed: {known}")
        column = self._columns.get(node.name.lower())
        if column is None:
            self._refuse(node, f"unknown column {node.name}; allowed: {known}")
            raise AssertionError
        return column

    def _value(self, column: CriteriaColumn, node: Any) -> str | int:
        if isinstance(node, exp.Placeholder) and isinstance(node.this, str):
            if node.this not in self._variables:
                raise WrongCriteria(f"criteria: the variable :{node.this} has no value in the variables")
            self.used.add(node.this)
            text = self._variables[node.this]
        elif isinstance(node, exp.Literal):
            text = str(node.this)
        elif isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string:
            text = f"-{node.this.this}"
        else:
            self._refuse(node, f"{_name(node)} stands where a value must; allowed: a literal or a variable like :p1")
            raise AssertionError
        if column.kind == "text":
            return text
        if not _NUMBER.fullmatch(text.strip()):
            raise WrongCriteria(f"criteria: {column.name}: value {text!r}: allowed: a whole number")
        return int(text)

    def _refuse(self, node: Any, why: str) -> None:
        raise WrongCriteria(f"criteria, column {self._place(node)}: {why}")

    def _place(self, node: Any) -> int | str:
        """Where a node begins, counted from 1: of sqlglot's nodes only names know it, the first within it counts."""
        starts = [one.meta["start"] + 1 for one in node.find_all(exp.Identifier) if "start" in one.meta]
        if starts:
            return min(starts)
        written = (node.sql(dialect="postgres"), _name(node))  # whole as it was typed, or the word that it begins with
        found = (re.search(re.escape(one), self._text, re.IGNORECASE) for one in written)
        return next((one.start() + 1 for one in found if one), "?")


def _operands(node: Any) -> Iterator[Any]:
    """Of a chain of one operator all operands, so that a long chain is not a deep one."""
    kind, waiting = type(node), [node]
    while waiting:
        one = waiting.pop()
        if type(one) is kind:
            waiting += [one.expression, one.this]
        else:
            yield one


def _name(node: Any) -> str:
    return str(getattr(node, "key", type(node).__name__)).upper()


def _like(pattern: str) -> re.Pattern[str]:
    """SQL's pattern: % any text, _ any character, a backslash takes the meaning of what follows."""
    parts, escaped = [], False
    for character in pattern:
        if escaped or character not in "%_\\":
            parts.append(re.escape(character))
            escaped = False
        elif character == "\\":
            escaped = True
        else:
            parts.append(".*" if character == "%" else ".")
    return re.compile("".join(parts), re.DOTALL)


_OPERATORS: tuple[tuple[type[exp.Expression], str], ...] = (
    (exp.EQ, "="), (exp.NEQ, "<>"), (exp.LT, "<"), (exp.LTE, "<="), (exp.GT, ">"), (exp.GTE, ">="), (exp.Like, "LIKE"),
)  # fmt: skip
#: what sqlglot may say of a comparison
_PARTS = {"this", "expression", "expressions", "low", "high", "negate"}
ALLOWED = "=, <>, <, <=, >, >=, LIKE, IN, BETWEEN, IS NULL, AND, OR, NOT"
_TESTS: Mapping[str, Callable[[Any, Sequence[Any]], bool]] = {
    "LIKE": lambda found, values: _like(values[0]).fullmatch(found) is not None,
    "IN": lambda found, values: found in values,
    **{
        how: (lambda found, values, compare=compare: bool(compare(found, values[0])))  # type: ignore[misc]
        for how, compare in (
            ("=", operator.eq), ("<>", operator.ne), ("<", operator.lt), ("<=", operator.le), (">", operator.gt),
            (">=", operator.ge),
        )
    },
}  # fmt: skip
