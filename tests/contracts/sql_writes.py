"""What the services' SQL writes: statements of their .sql files and of string constants in their Python, parsed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import sqlglot
from sqlglot import exp

ROOT = Path(__file__).resolve().parents[2]
SERVICES = ("task_definition", "task_brokerage", "job_generation", "job_brokerage", "job_dispatch", "watchdog",
            "jumbo_watchdog", "share_correction")  # fmt: skip
_NAME = re.compile(r"^\s*--\s*name\s*:\s*([\w-]+)", re.MULTILINE)
_PARAMETER = re.compile(r"(?<![:\w]):([A-Za-z_]\w*)")
_LOOKS_LIKE_SQL = re.compile(r"^\s*(--.*\n\s*)*(WITH|SELECT|INSERT INTO|UPDATE|DELETE FROM)\b")


@dataclass(frozen=True)
class Statement:
    """One statement of a service, with where it stands."""

    service: str
    where: str
    sql: str


#: puts the statements of the invariants together, which only read
CHECKS_TOGETHER = ROOT / "services" / "watchdog" / "checking" / "run.py"


@dataclass(frozen=True)
class Write:
    """One column (or, for inserts and deletes, table) that a statement writes; `value` where it is a constant."""

    service: str
    where: str
    kind: str  # insert, update, delete
    table: str
    column: str = ""
    value: str | None = None


def statements() -> Iterator[Statement]:
    """Every statement of every service."""
    for service in SERVICES:
        folder = ROOT / "services" / service
        for path in sorted(folder.rglob("*.sql")):
            yield from _of_sql_file(service, path)
        for path in sorted(folder.rglob("*.py")):
            if path != CHECKS_TOGETHER:
                yield from _of_python_file(service, path)


def _of_sql_file(service: str, path: Path) -> Iterator[Statement]:
    text = path.read_text(encoding="utf-8")
    marks = list(_NAME.finditer(text))
    for mark, following in zip(marks, [*marks[1:], None], strict=True):
        start = text.index("\n", mark.start())
        end = following.start() if following else len(text)
        yield Statement(service, f"{path.relative_to(ROOT)}: {mark[1]}", text[start:end].strip().rstrip(";"))


def _of_python_file(service: str, path: Path) -> Iterator[Statement]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _LOOKS_LIKE_SQL.match(node.value):
            text = re.sub(r"\{[^{}]*\}", "SELECT 1", node.value)
            yield Statement(service, f"{path.relative_to(ROOT)}:{node.lineno}", text)
        if _is_copy(node):
            table = node.args[0].value
            yield Statement(service, f"{path.relative_to(ROOT)}:{node.lineno}", f"INSERT INTO {table} SELECT 1")


def _is_copy(node: ast.AST) -> bool:
    """COPY into a table that is named by a constant."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "copy_records_to_table"
        and isinstance(node.args[0], ast.Constant)
    )


def parsed(statement: Statement) -> exp.Expression:
    """The statement's tree; `:name` parameters become placeholders of their own name."""
    text = _PARAMETER.sub(r"@\1", statement.sql)
    return sqlglot.parse_one(text, read="postgres")


def writes() -> Iterator[Write]:
    """Every write of every service."""
    for statement in statements():
        tree = parsed(statement)
        for node in tree.walk():
            if isinstance(node, exp.Update):
                yield from _updates(statement, node)
            elif isinstance(node, exp.Insert):
                yield from _inserts(statement, node)
            elif isinstance(node, exp.Delete):
                yield Write(statement.service, statement.where, "delete", _table(node.this))


def _updates(statement: Statement, node: exp.Update) -> Iterator[Write]:
    for column, value in _assignments(node.expressions):
        yield Write(statement.service, statement.where, "update", _table(node.this), column, value)


def _inserts(statement: Statement, node: exp.Insert) -> Iterator[Write]:
    target = node.this
    table = _table(target)
    yield Write(statement.service, statement.where, "insert", table)
    conflict = node.args.get("conflict")
    if conflict is not None:
        for column, value in _assignments(conflict.expressions):
            yield Write(statement.service, statement.where, "update", table, column, value)


def _assignments(expressions: list[exp.Expression]) -> Iterator[tuple[str, str | None]]:
    for assignment in expressions:
        if isinstance(assignment, exp.EQ):
            value = assignment.expression
            constant = value.this if isinstance(value, exp.Literal) and value.is_string else None
            yield assignment.this.name, constant


def _table(node: exp.Expression) -> str:
    table = node if isinstance(node, exp.Table) else node.find(exp.Table)
    assert table is not None, node.sql()
    return f"{table.db}.{table.name}" if table.db else table.name
