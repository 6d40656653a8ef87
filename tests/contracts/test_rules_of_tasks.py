"""A task's rules have one home: others read attributes, and statements name what is declared."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.task.in_effect import SplitRules
from shared.task.rules import FormRules

ROOT = Path(__file__).parents[2]
HOME = ROOT / "shared" / "task"
NAMES = {field.alias or name for name, field in {**SplitRules.model_fields, **FormRules.model_fields}.items()}
#: words that columns and fields of other things have, too
WORDS = {name for name in NAMES if name.islower()}
#: what holds rules under their JSON names
HOLDERS = re.compile(r"rules?\b|split_rule|parameters|stated|stored|given")
#: attributes of a dataset, and the specification of a job, have fields of the same names
OTHERS = re.compile(r"^(attributes|spec)$")
SOURCES = [path for part in ("services", "shared") for path in (ROOT / part).rglob("*.py") if HOME not in path.parents]
#: `split_rule ->> 'requirements'`, `split_rule ? 'hpoWorkflow'`, `split_rule || jsonb_build_object('usePrePro', ...)`
IN_STATEMENTS = re.compile(r"split_rule\s*(?:->>?|\?|\|\|\s*jsonb_build_object\()\s*'(\w+)'")


def reads(tree: ast.AST) -> Iterator[tuple[int, str, str]]:
    """Where a mapping is asked for a constant: the line, the mapping, the constant."""
    for node in ast.walk(tree):
        base: ast.expr
        match node:
            case ast.Subscript(value=base, slice=ast.Constant(value=str(name)), ctx=ast.Load()):
                yield node.lineno, ast.unparse(base), name
            case ast.Call(func=ast.Attribute(value=base, attr="get" | "pop"), args=[ast.Constant(value=str(name)), *_]):
                yield node.lineno, ast.unparse(base), name
            case ast.Compare(left=ast.Constant(value=str(name)), ops=[ast.In() | ast.NotIn()], comparators=[base]):
                yield node.lineno, ast.unparse(base), name


def reads_of_rules(source: str) -> list[tuple[int, str]]:
    """The lines that read a rule by its name, with the name."""
    return [
        (line, name)
        for line, base, name in reads(ast.parse(source))
        if name in NAMES and not OTHERS.match(base) and (name not in WORDS or HOLDERS.search(base))
    ]


def test_nobody_reads_a_rule_by_its_name_outside_of_its_home() -> None:
    found = {path.relative_to(ROOT): reads_of_rules(path.read_text()) for path in SOURCES}
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "source",
    [
        "task.split_rule.get('skipScout')",
        "rules['nFilesPerJob']",
        "'mergeOutput' in changes",
        "given.pop('requirements')",
    ],
)
def test_a_read_by_name_is_found(source: str) -> None:
    assert reads_of_rules(source)


def test_statements_name_rules_that_are_declared() -> None:
    found = {
        name: path.relative_to(ROOT)
        for part in ("services", "shared")
        for path in (ROOT / part).rglob("*.sql")
        for name in IN_STATEMENTS.findall(path.read_text())
    }
    assert len(found) > 5 and {name: path for name, path in found.items() if name not in NAMES} == {}


def test_a_rule_has_one_name_and_one_attribute() -> None:
    declared = [*SplitRules.model_fields.items(), *FormRules.model_fields.items()]
    assert len({field.alias for _, field in declared}) == len({name for name, _ in declared}) == len(declared)
