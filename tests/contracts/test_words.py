"""Words: the first line of a docstring is short, as editors show it alone; of what acts, it says the act."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHARACTERS_OF_A_FIRST_LINE = 100
NOT_AN_ACT = frozenset(
    (
        *("a", "an", "the", "what", "which", "who", "whose", "whether", "how", "why", "when", "where"),
        *("that", "those", "these", "this", "it", "its", "they", "their", "all"),
    )
)
#: docstrings of what acts that name a thing or ask a question; the numbers may only get smaller
MOST_WITHOUT_AN_ACT = {
    "services/cli": 47,
    "services/console": 0,
    "services/job_brokerage": 2,
    "services/job_dispatch": 23,
    "services/job_generation": 103,
    "services/jumbo_watchdog": 0,
    "services/share_correction": 2,
    "services/task_brokerage": 0,
    "services/task_definition": 60,
    "services/watchdog": 1,
    "shared": 57,
    "deploy": 6,
}


def public_docstrings(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """(name, docstring) of a module, its classes and its public functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            name, text = getattr(node, "name", "module"), ast.get_docstring(node)
            if text and (isinstance(node, ast.Module | ast.ClassDef) or not name.startswith("_")):
                yield name, text


def test_the_first_line_of_a_docstring_has_at_most_100_characters() -> None:
    too_long = [
        f"{path.relative_to(ROOT)} {name}: {text.splitlines()[0]}"
        for folder in ("services", "shared", "deploy")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for name, text in public_docstrings(ast.parse(path.read_text()))
        if len(text.splitlines()[0]) > CHARACTERS_OF_A_FIRST_LINE
    ]
    assert too_long == []


def without_an_act(tree: ast.AST) -> Iterator[str]:
    """Give the public functions that act and whose docstring begins with an article, a question or a pronoun.

    A function acts if it is awaited or returns nothing: handlers, steps and stores do. Functions that only compute
    a value may be named by it.
    """
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith("_"):
            continue
        returns_nothing = isinstance(node.returns, ast.Constant) and node.returns.value is None
        text = ast.get_docstring(node)
        acts = isinstance(node, ast.AsyncFunctionDef) or returns_nothing
        if text and acts and text.split()[0].strip(".,;:`").lower() in NOT_AN_ACT:
            yield f"{node.name}: {text.splitlines()[0]}"


@pytest.mark.parametrize("package", sorted(MOST_WITHOUT_AN_ACT))
def test_the_docstring_of_what_acts_begins_with_the_act(package: str) -> None:
    """Both ways: a limit above what there is would let new ones in."""
    found = [
        f"{path.relative_to(ROOT)} {told}"
        for path in sorted((ROOT / package).rglob("*.py"))
        for told in without_an_act(ast.parse(path.read_text()))
    ]
    limit = MOST_WITHOUT_AN_ACT[package]
    assert len(found) <= limit, "begin with the act (Add, Read, Tell whether):\n" + "\n".join(found)
    assert len(found) >= limit, f"{package}: {len(found)} are left: lower its limit"


def test_what_is_no_act_is_found() -> None:
    """Hold the check itself against what it must and must not find."""
    source = """
async def one() -> int:
    'The jobs of a task.'
def two() -> None:
    'Whether it is.'
def three() -> int:
    'The number.'
async def four() -> None:
    'Add a job.'
"""
    assert [told.partition(":")[0] for told in without_an_act(ast.parse(source))] == ["one", "two"]
