"""Kinds of jobs are rooms that the steps of a task do not know: each can be removed, and nothing else breaks."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.drawn import one_of_two

ROOT = Path(__file__).parents[2]
SERVICE = ROOT / "services" / "job_generation"
PACKAGE = "services.job_generation"
#: modules of the service below `settling`, and below the step that needs most
MOST_BELOW_SETTLING, MOST_BELOW_A_STEP = 35, 50
#: so many files of the service outside the room of jumbo jobs name them, or more
MOST_NAMES_OF_JUMBO = 15
#: tests of what is left, in the copy
UNITS = ("test_kinds_of_jobs.py", "test_plugin.py", "test_event_service.py", "test_job_specification.py")
STORIES = ("test_commands.py", "test_build_jobs.py", "test_merging_without_log.py")


def _module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {_module(path): path for path in SERVICE.rglob("*.py")}


def _imported(module: str) -> Iterator[str]:
    """Modules of the service that this one imports, wherever in its text."""
    for node in ast.walk(ast.parse(MODULES[module].read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names = [one for alias in node.names for one in (f"{node.module}.{alias.name}", node.module)]
        yield from (name for name in names if name in MODULES)


def _below(module: str) -> set[str]:
    """All modules of the service that a module stands on, but for packages that only say what is in them."""
    found, left = set[str](), [module]
    while left:
        new = set(_imported(left.pop())) - found
        found |= new
        left += new
    return {one for one in found if MODULES[one].name != "__init__.py" or list(_imported(one))}


def test_a_step_stands_on_few_modules_and_on_no_kind() -> None:
    below = {name: _below(f"{PACKAGE}.steps.{name}") for name in ("offering", "making", "counting", "settling")}
    assert len(below["settling"]) <= MOST_BELOW_SETTLING
    assert {name: len(one) for name, one in below.items() if len(one) > MOST_BELOW_A_STEP} == {}
    for modules in below.values():
        assert {one for one in modules if one.startswith(f"{PACKAGE}.kinds")} == set()


def test_no_step_has_a_word_of_a_special_kind() -> None:
    words = re.compile(r"jumbo|event.service|search|cop(y|ies)|clon(e|ing)|preprocess|library", re.IGNORECASE)
    paths = [SERVICE / "handlers.py", *(SERVICE / "steps").glob("*.py")]
    found = [
        f"{path.name}:{number}: {line.strip()}"
        for path in paths
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if words.search(line)
    ]
    assert found == []


def test_a_kind_has_its_doors_in_one_place() -> None:
    rooms = [path.parent for path in (SERVICE / "kinds").glob("*/__init__.py")]
    assert len(rooms) == 9 and all((room / "doors.py").exists() for room in rooms)


def test_few_files_outside_their_room_name_jumbo_jobs() -> None:
    paths = [path for path in SERVICE.rglob("*") if path.suffix in (".py", ".sql") and "jumbo" not in path.parts]
    named = [str(path.relative_to(SERVICE)) for path in paths if "jumbo" in path.read_text().lower()]
    assert len(named) < MOST_NAMES_OF_JUMBO, named


def test_one_place_builds_the_request_of_jobs() -> None:
    builders = [str(path.relative_to(ROOT)) for path in MODULES.values() if "BuildRequest(" in path.read_text()]
    assert builders == ["services/job_generation/requesting.py"]


def _without(kind: str, copy: Path) -> list[str]:
    """Copy the service without a kind and its lines of registration, with the tests; modules that are left."""
    for name in ("services", "shared", "deploy"):
        (copy / name).mkdir()
        for path in (ROOT / name).iterdir():
            if path.name not in ("job_generation", "__pycache__"):
                (copy / name / path.name).symlink_to(path)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(SERVICE, copy / "services" / "job_generation", ignore=ignored)
    shutil.copytree(ROOT / "tests", copy / "tests", ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", copy)
    rooms = copy / "services" / "job_generation" / "kinds"
    shutil.rmtree(rooms / kind)
    registered = (rooms / "registered.py").read_text()
    [(line, name)] = re.findall(rf"(from {PACKAGE}\.kinds\.{kind}\.doors import (\w+)\n)", registered)
    (rooms / "registered.py").write_text(registered.replace(line, "").replace(f"    {name},\n", ""))
    left = [path for path in (copy / "services" / "job_generation").rglob("*.py") if path.name != "__main__.py"]
    return [".".join(path.relative_to(copy).with_suffix("").parts).removesuffix(".__init__") for path in left]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", one_of_two("search", "copies"))
def test_a_kind_can_be_removed_and_all_else_goes_on(kind: str, tmp_path: Path) -> None:
    modules = _without(kind, tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    imports = f"import importlib\nfor one in {modules!r}: importlib.import_module(one)"
    subprocess.run([sys.executable, "-c", imports], cwd=tmp_path, env=environment, check=True, timeout=200)
    units = [f"tests/unit/job_generation/{name}" for name in UNITS if kind not in name]
    stories = [f"tests/handlers/job_generation/{name}" for name in STORIES]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--night", *units, *stories],
        cwd=tmp_path, env=environment, check=False, capture_output=True, text=True, timeout=400,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-2000:]
