"""Words: the first line of a docstring is short, as editors show it alone; a class has a name of its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
CHARACTERS_OF_A_FIRST_LINE = 100
#: the layout's own words: a class of this name has the same role in each service that has one
ROLES_OF_THE_LAYOUT = {"Handlers": "handlers.py of a service: one method for each event it consumes"}


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


def class_definitions() -> dict[str, list[str]]:
    """Where the classes of each name are defined in services and shared."""
    found: dict[str, list[str]] = {}
    for folder in ("services", "shared"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef):
                    found.setdefault(node.name, []).append(f"{path.relative_to(ROOT)}:{node.lineno}")
    return found


def test_a_name_of_a_class_is_used_once() -> None:
    used_twice = {
        name: places
        for name, places in class_definitions().items()
        if len(places) > 1 and name not in ROLES_OF_THE_LAYOUT
    }
    assert used_twice == {}


def test_a_role_of_the_layout_has_at_most_one_class_in_each_service() -> None:
    for name in ROLES_OF_THE_LAYOUT:
        services = [place.split("/")[1] for place in class_definitions()[name]]
        assert len(services) > 1 and len(services) == len(set(services))
