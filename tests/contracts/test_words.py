"""Words: the first line of a docstring is short, as editors show it alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
CHARACTERS_OF_A_FIRST_LINE = 100


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
