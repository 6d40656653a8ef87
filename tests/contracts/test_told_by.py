"""Every statement whose rows a question may be answered with names the access rule by which they are told.

A statement is found from the endpoints of routes that read: by the names of the functions that they call, in the
modules that theirs imports, directly or through one more. That finds some too many, none of which is told: they say so.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from services.cli.addresses import SERVICES
from shared.auth.access import RULES
from shared.db.queries import Queries
from shared.runtime.service import Context
from tests.contracts.sql_writes import ROOT
from tests.contracts.test_rights import CHECKED_INSIDE, routes_of
from tests.contracts.test_statements import SQL_FILES, _statements_known_to, told, tree_of

TOLD_BY = re.compile(r"^-- told by: (\w+)(; .+)?$", re.MULTILINE)
#: for statements by which something is decided, whose rows are told to nobody: the reason follows
NOBODY = "nobody"
CHANGES = re.compile(r"\b(INSERT INTO|DELETE FROM|UPDATE\s+\S+(\s+\w+)?\s+SET)\b")
NAMES = {rule.name for rule in RULES}


def rule_of(path: Path, name: str) -> str:
    """What stands behind `-- told by:` in the comment of a statement; nothing where it names no rule."""
    comment = path.read_text(encoding="utf-8").split(f"-- name: {name}\n", 1)[1]
    lines = []
    for line in comment.splitlines():
        if not line.startswith("--"):
            break
        lines.append(line)
    found = TOLD_BY.search("\n".join(lines))
    return found.group(1) if found else ""


@cache
def _imported(path: Path) -> frozenset[Path]:
    """The modules of the project that a module imports."""
    found = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(("services.", "shared.")):
            of_module = ROOT.joinpath(*node.module.split(".")).with_suffix(".py")
            found |= {of_module} | {of_module.with_suffix("") / f"{one.name}.py" for one in node.names}
    return frozenset(one for one in found if one.exists())


@cache
def _functions(path: Path) -> dict[str, ast.AST]:
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    return {node.name: node for node in ast.walk(tree_of(path)) if isinstance(node, kinds)}


def _called(node: ast.AST) -> set[str]:
    calls = (one.func for one in ast.walk(node) if isinstance(one, ast.Call))
    return {one.attr if isinstance(one, ast.Attribute) else getattr(one, "id", "") for one in calls}


def _statements_in(node: ast.AST) -> set[str]:
    """Names of the statements that a function reads rows with, itself or by a helper that takes the statements."""
    found = set()
    for one in ast.walk(node):
        if isinstance(one, ast.Call) and any("SQL" in ast.unparse(part) for part in (one.func, *one.args[:1])):
            found |= {part.value for part in one.args[1:] if isinstance(part, ast.Constant)}
    return {name for name in found if isinstance(name, str)}


def _endpoints(service: str, context: Context) -> Iterator[tuple[ModuleType, str]]:
    """Modules and names of the functions that answer questions."""
    for route in routes_of(service, context):
        if "GET" in (route.methods or ()) or route.path in CHECKED_INSIDE:
            endpoint: Any = inspect.unwrap(route.endpoint)
            yield importlib.import_module(endpoint.__module__), endpoint.__name__


def statements_read(service: str, context: Context) -> set[tuple[Path, str]]:
    """File and name of each statement that an answer may be made of."""
    found: set[tuple[Path, str]] = set()
    for module, name in _endpoints(service, context):
        own = Path(str(module.__file__))
        near = _imported(own) | {own}
        modules = near | {one for path in near for one in _imported(path)}
        names, looked_at = {name}, set[tuple[Path, str]]()
        while fresh := {(path, one) for path in modules for one in names & _functions(path).keys()} - looked_at:
            looked_at |= fresh
            for path, one in fresh:
                names |= _called(_functions(path)[one])
        for path, one in looked_at:
            known = _statements_known_to(path)
            for statement in _statements_in(_functions(path)[one]) if known is not None else ():
                if statement in known.names() and not CHANGES.search(known.text(statement)):
                    found.add((_file_of(path, known), statement))
    return found


def _file_of(module: Path, known: Any) -> Path:
    own = module.with_suffix(".sql")
    if own.exists():
        return own
    near = (path for path in SQL_FILES if path.with_suffix(".py") in _imported(module))
    return next(path for path in near if known.names() == Queries(path).names())


@pytest.mark.parametrize("service", SERVICES)
async def test_every_statement_that_an_answer_is_made_of_names_its_rule(service: str, context: Context) -> None:
    silent = sorted(
        f"{told(path)}: {name}" for path, name in statements_read(service, context) if not rule_of(path, name)
    )
    assert silent == [], "say in the comment by which rule its rows are told: -- told by: DETAILS"


def test_rules_that_statements_name_exist() -> None:
    wrong = [
        f"{told(path)}: {name}"
        for path in SQL_FILES
        for name, _ in TOLD_BY.findall(path.read_text(encoding="utf-8"))
        if name not in NAMES | {NOBODY}
    ]
    assert wrong == []


async def test_the_statements_of_details_are_found(context: Context) -> None:
    found = {name for service in SERVICES for _, name in statements_read(service, context)}
    assert {"task_details", "list_jobs", "describe_jobs", "stdout", "task_of_file", "decisions_of_task"} <= found
