"""What an endpoint reaches by the names of the functions that it calls: their statements, and the events they emit.

Functions are looked for in the modules that the endpoint's module imports, directly or through one more. That finds
some too many: what is reached from routes of other rules by a name alone is declared.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
from functools import cache
from pathlib import Path
from typing import Any

from shared import events
from shared.db.queries import Queries
from tests.contracts.sql_writes import ROOT
from tests.contracts.test_statements import SQL_FILES, _statements_known_to, tree_of

EVENTS = frozenset(
    name for name, value in vars(events).items() if inspect.isclass(value) and issubclass(value, events.Event)
)


@cache
def imported(path: Path) -> frozenset[Path]:
    """The modules of the project that a module imports."""
    found = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(("services.", "shared.")):
            of_module = ROOT.joinpath(*node.module.split(".")).with_suffix(".py")
            found |= {of_module} | {of_module.with_suffix("") / f"{one.name}.py" for one in node.names}
    return frozenset(one for one in found if one.exists())


@cache
def functions_of(path: Path) -> dict[str, ast.AST]:
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    return {node.name: node for node in ast.walk(tree_of(path)) if isinstance(node, kinds)}


def _name(node: ast.AST) -> str:
    """The last name of what is called; of one out of a table, `self._verbs[name]`, that of the table."""
    if isinstance(node, ast.Subscript):
        return _name(node.value).lstrip("_")
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


@cache
def called(node: ast.AST) -> set[str]:
    """Names of what a function calls, and of the functions in the tables that it makes."""
    found = {_name(one.func) for one in ast.walk(node) if isinstance(one, ast.Call)}
    tables = (one.values for one in ast.walk(node) if isinstance(one, ast.Dict))
    return found | {_name(value) for values in tables for value in values}


@cache
def statements_in(node: ast.AST) -> set[str]:
    """Names of the statements that a function reads rows with, itself or by a helper that takes the statements."""
    found = set()
    for one in ast.walk(node):
        if isinstance(one, ast.Call) and any("SQL" in ast.unparse(part) for part in (one.func, *one.args[:1])):
            found |= {part.value for part in one.args[1:] if isinstance(part, ast.Constant)}
    return {name for name in found if isinstance(name, str)}


@cache
def file_of(module: Path, known: Any) -> Path:
    own = module.with_suffix(".sql")
    if own.exists():
        return own
    near = (path for path in SQL_FILES if path.with_suffix(".py") in imported(module))
    return next(path for path in near if known.names() == Queries(path).names())


def function_of(endpoint: Any) -> Any:
    """The function that answers, under what guards it and turns its answer into a form of the protocol."""
    inner = inspect.unwrap(endpoint)
    cells = inspect.getclosurevars(inner).nonlocals if inspect.isfunction(inner) else {}
    holder = getattr(inner, "__self__", None) or cells.get("self")
    below = cells.get("endpoint") or getattr(holder, "endpoint", None)
    return function_of(below) if callable(below) else inner


def comment_of(path: Path, name: str) -> str:
    """The comment under the name of a statement."""
    below = path.read_text(encoding="utf-8").split(f"-- name: {name}\n", 1)[1].splitlines()
    return "\n".join(itertools.takewhile(lambda line: line.startswith("--"), below))


@cache
def _reached(own: Path, name: str) -> tuple[frozenset[tuple[Path, str]], frozenset[str]]:
    """Statements, and names of what is called."""
    near = imported(own) | {own}
    modules = near | {one for path in near for one in imported(path)}
    names, looked_at = {name}, set[tuple[Path, str]]()
    while fresh := {(path, one) for path in modules for one in names & functions_of(path).keys()} - looked_at:
        looked_at |= fresh
        for path, one in fresh:
            names |= called(functions_of(path)[one])
    found = set[tuple[Path, str]]()
    for path, one in looked_at:
        known = _statements_known_to(path)
        for statement in statements_in(functions_of(path)[one]) if known is not None else ():
            if statement in known.names():
                found.add((file_of(path, known), statement))
    return frozenset(found), frozenset(names)


def reached_from(endpoint: Any) -> tuple[frozenset[tuple[Path, str]], frozenset[str]]:
    """File and name of each statement, and names of events."""
    statements, names = calls_of(endpoint)
    return statements, names & EVENTS


def calls_of(endpoint: Any) -> tuple[frozenset[tuple[Path, str]], frozenset[str]]:
    """File and name of each statement, and names of the functions and classes that are called."""
    function = function_of(endpoint)
    module = importlib.import_module(function.__module__)
    return _reached(Path(str(module.__file__)), function.__code__.co_name)
