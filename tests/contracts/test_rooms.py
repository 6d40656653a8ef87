"""Every service is laid out alike: a newcomer finds the place of a rule by its kind."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SERVICES = sorted(path.parent for path in (ROOT / "services").glob("*/app.py") if path.parent.name != "cli")
MODULES = {"__init__", "__main__", "app", "handlers", "parameters", "environment", "metrics"}
FOLDERS = {"api", "policy", "store"}
#: stages of job_dispatch whose names are the calls and the states that they are about
STAGES = {"acquire", "lifecycle"}
LINES_OF_A_FILE, LINES_OF_A_FUNCTION = 320, 60


def is_stage(name: str) -> bool:
    """A gerund, what the service does in it: offering, generating."""
    return name in STAGES or name.endswith("ing")


@pytest.mark.parametrize("service", SERVICES, ids=lambda path: path.name)
def test_the_root_of_a_service_has_known_names_only(service: Path) -> None:
    found = {path.stem for path in service.glob("*.py")}
    folders = {path.parent.name for path in service.glob("*/*.py")}
    assert {name for name in found - MODULES if not is_stage(name)} == set()
    assert {name for name in folders - FOLDERS if not is_stage(name)} == set()
    assert {"__init__", "__main__", "app", "handlers"} <= found and FOLDERS - folders <= {"api"}


@pytest.mark.parametrize("service", SERVICES, ids=lambda path: path.name)
def test_statements_of_a_service_are_in_its_store(service: Path) -> None:
    assert [path for path in service.rglob("*.sql") if (service / "store") not in path.parents] == []


def _sources() -> list[Path]:
    return [path for folder in ("services", "shared", "deploy") for path in sorted((ROOT / folder).rglob("*.py"))]


def test_no_file_is_longer_than_a_reader_takes_in() -> None:
    long = {
        str(path.relative_to(ROOT)): n
        for path in _sources()
        if (n := len(path.read_text().splitlines())) > LINES_OF_A_FILE
    }
    assert long == {}


def test_no_function_is_longer_than_a_page() -> None:
    long = [
        f"{path.relative_to(ROOT)}: {node.name} has {node.end_lineno - node.lineno + 1} lines"
        for path in _sources()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 > LINES_OF_A_FUNCTION
    ]
    assert long == []
