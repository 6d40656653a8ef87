"""A runtime parameter is declared once, where it is used: every declaration is gathered, and each is read."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

from shared.config.declared import DECLARING_MODULES, declared_in, declared_parameters
from shared.config.parameter import declared_by

ROOT = Path(__file__).resolve().parents[2]
PLUMBING = ("shared.config.parameter", "shared.config.parameters", "shared.config.declared")


def modules() -> Iterator[tuple[str, ast.Module]]:
    for folder in ("services", "shared"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            if name not in PLUMBING:
                yield name, ast.parse(path.read_text())


@cache
def trees() -> dict[str, ast.Module]:
    """The modules by name; read when the first test asks."""
    return dict(modules())


def called(tree: ast.Module) -> set[str]:
    return {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}


def names_used(tree: ast.Module) -> set[str]:
    """Names that are read, not those that are imported or assigned."""
    loads = (node for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))
    attributes = (node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    return {*(node.id for node in loads), *attributes}


def test_the_modules_that_declare_parameters_are_those_that_are_gathered() -> None:
    declaring = {name for name, tree in trees().items() if called(tree) & {"Parameter", "job_timeout"}}
    assert declaring == set(DECLARING_MODULES)
    assert [name for name in DECLARING_MODULES if not list(declared_in(import_module(name)))] == []


def test_every_declaration_in_the_text_of_a_module_is_gathered_from_it() -> None:
    for name in DECLARING_MODULES:
        found = list(declared_in(import_module(name)))
        keys = {one.key for one in found}
        for node in ast.walk(trees()[name]):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Parameter":
                given = node.args[1]
                assert not isinstance(given, ast.Constant) or given.value in keys, f"{name}: {given!r}"
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "job_timeout":
                given = node.args[0]
                assert not isinstance(given, ast.Constant) or f"TIMEOUT_{given.value}" in keys, f"{name}: {given!r}"


def test_no_name_is_declared_twice() -> None:
    names = [name for one in declared_parameters() for name in one.names]
    assert sorted(set(names)) == sorted(names)


def test_every_declared_parameter_is_read() -> None:
    """A constant is used somewhere; a class whose fields are set by parameters is filled from them."""
    used = set().union(*(names_used(tree) for tree in trees().values()))
    filled = {
        node.args[0].attr if isinstance(node.args[0], ast.Attribute) else node.args[0].id
        for tree in trees().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "filled"
        if isinstance(node.args[0], ast.Name | ast.Attribute)
    }
    unread = []
    for name in DECLARING_MODULES:
        module = import_module(name)
        of_classes = {
            id(one)
            for cls in vars(module).values()
            if isinstance(cls, type) and cls.__name__ in filled and cls.__module__ == name
            for one in declared_by(cls)
        }
        constants = {id(value) for key, value in vars(module).items() if key in used}
        in_tuples = {id(one) for key, value in vars(module).items() if isinstance(value, tuple) for one in value}
        reached = of_classes | constants | in_tuples
        unread += [f"{name}: {one.name}" for one in declared_in(module) if id(one) not in reached]
    assert unread == []
