"""One way to SQL: each store has its statements in the file of its name; each is called, and says what it is for."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from shared.db.queries import Queries
from tests.contracts.sql_writes import ROOT

#: statements that are read by listing the file: the invariants
LISTED = ROOT / "services/watchdog/store/invariants"
KINDS = {"rows", "row", "one", "value", "run"}
SQL_FILES = sorted(
    path
    for folder in ("services", "shared")
    for path in (ROOT / folder).rglob("*.sql")
    if path.parent != ROOT / "shared/db/schema"
)
_NAME = re.compile(r"^-- name: *(.*)\n(.*)", re.MULTILINE)


def told(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def statements_of(path: Path) -> Queries:
    return Queries(path)


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def modules() -> Iterator[Path]:
    for folder in ("services", "shared"):
        yield from sorted((ROOT / folder).rglob("*.py"))


@pytest.mark.parametrize("path", SQL_FILES, ids=told)
def test_every_statement_says_under_its_name_what_it_is_for(path: Path) -> None:
    silent = [
        name
        for name, following in _NAME.findall(path.read_text(encoding="utf-8"))
        if not following[3:].strip() or not following.startswith("-- ")
    ]
    assert silent == []


def test_statements_are_beside_the_module_of_their_name() -> None:
    alone = [told(path) for path in SQL_FILES if path.parent != LISTED and not path.with_suffix(".py").exists()]
    assert alone == []


def test_the_statements_of_a_module_are_its_constant_sql() -> None:
    wrong = []
    for path in modules():
        for line in path.read_text(encoding="utf-8").splitlines():
            if "Queries.beside(" in line and line != "SQL = Queries.beside(__file__)":
                wrong.append(f"{told(path)}: {line.strip()}")
    assert wrong == []


@pytest.mark.parametrize("path", [path for path in SQL_FILES if path.parent != LISTED], ids=told)
def test_every_statement_is_called(path: Path) -> None:
    """Its name is a string somewhere in the Python of its package."""
    package = ROOT.joinpath(*path.relative_to(ROOT).parts[:2])
    strings = {
        node.value
        for module in package.rglob("*.py")
        for node in ast.walk(tree_of(module))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert set(statements_of(path).names()) - strings == set()


def _statements_known_to(module: Path) -> Queries | None:
    """What `SQL` is in a module: its own statements, or those of the module that it imports it from."""
    for node in tree_of(module).body:
        if isinstance(node, ast.Assign) and ast.unparse(node) == "SQL = Queries.beside(__file__)":
            return statements_of(module.with_suffix(".sql"))
        if isinstance(node, ast.ImportFrom) and node.module and any(one.name == "SQL" for one in node.names):
            return statements_of(ROOT.joinpath(*node.module.split(".")).with_suffix(".sql"))
    return None


def _calls(module: Path) -> Iterator[tuple[str, set[str], bool]]:
    """Name, arguments, and whether there may be more of them, of each call with a literal name."""
    for node in ast.walk(tree_of(module)):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in KINDS
            and ast.unparse(node.func.value) == "SQL"
            and isinstance(node.args[1], ast.Constant)
        ):
            given = {one.arg for one in node.keywords if one.arg is not None} - {"timeout_s"}
            yield node.args[1].value, given, any(one.arg is None for one in node.keywords)


def test_every_call_names_a_statement_of_its_file_and_gives_the_parameters_that_this_has() -> None:
    wrong = []
    for module in modules():
        known = _statements_known_to(module)
        for name, given, has_more in _calls(module) if known is not None else ():
            if name not in known.names():
                wrong.append(f"{told(module)}: there is no statement {name}")
            elif given - (wanted := set(known.parameters(name))) or (wanted - given and not has_more):
                wrong.append(f"{told(module)}: {name} has {sorted(wanted)}, is given {sorted(given)}")
    assert wrong == []
