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
#: services that are several rooms, each with folders of its own
ROOMS = {"task_definition": {"tasks", "data", "desk"}}
#: folders of one service that are subjects which it alone has
SUBJECTS = {"job_generation": {"steps", "kinds", "specification", "splitting", "throttle", "scouts", "retry"}}
#: services that hear no events and have no statements: pages over the API of the others
WITHOUT_EVENTS = {"console"}
LINES_OF_A_CLASS, LINES_OF_A_FUNCTION = 200, 60
#: classes that are longer than that; it may only get shorter
LONG_CLASSES = {
    "services/job_dispatch/acquire/windows.py: Windows",
    "services/job_generation/specification/building.py: Builder",
}


def is_stage(name: str) -> bool:
    """A gerund, what the service does in it: offering, generating."""
    return name in STAGES or name.endswith("ing")


@pytest.mark.parametrize("service", SERVICES, ids=lambda path: path.name)
def test_the_root_of_a_service_has_known_names_only(service: Path) -> None:
    found = {path.stem for path in service.glob("*.py")}
    folders = {path.parent.name for path in service.glob("*/*.py")}
    assert {name for name in found - MODULES if not is_stage(name)} == set()
    rooms = ROOMS.get(service.name, set())
    known = FOLDERS | rooms | SUBJECTS.get(service.name, set())
    assert {name for name in folders - known if not is_stage(name)} == set()
    asks_others = service.name in WITHOUT_EVENTS
    assert {"__init__", "__main__", "app"} <= found and rooms <= folders
    assert ("handlers" in found) != asks_others
    assert FOLDERS - folders <= (FOLDERS if rooms else {"store"} if asks_others else {"api"})


@pytest.mark.parametrize("room", [ROOT / "services" / one / room for one in ROOMS for room in sorted(ROOMS[one])])
def test_a_room_of_a_service_has_known_names_only(room: Path) -> None:
    found = {path.stem for path in room.glob("*.py")} - {"__init__"}
    folders = {path.parent.name for path in room.glob("*/*.py")}
    assert {name for name in found | (folders - FOLDERS) if not is_stage(name)} == set()
    assert folders >= FOLDERS


@pytest.mark.parametrize("service", SERVICES, ids=lambda path: path.name)
def test_statements_of_a_service_are_in_its_store(service: Path) -> None:
    """Or in that of the one subject, or the one kind of jobs, that asks them."""
    rooms = ROOMS.get(service.name, {"", *SUBJECTS.get(service.name, set())})
    stores = [service / room / "store" for room in rooms]
    if "kinds" in SUBJECTS.get(service.name, set()):
        stores += [path for room in (service / "kinds").iterdir() for path in (room / "store", room / "store.sql")]
    assert [path for path in service.rglob("*.sql") if not set(stores) & {path, *path.parents}] == []


def _sources() -> list[Path]:
    return [path for folder in ("services", "shared", "deploy") for path in sorted((ROOT / folder).rglob("*.py"))]


def _longer(kinds: type[ast.AST] | tuple[type[ast.AST], ...], most: int) -> set[str]:
    """The definitions of these kinds that have more lines, by their files."""
    return {
        f"{path.relative_to(ROOT)}: {node.name}"
        for path in _sources()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and isinstance(node, kinds)
        if node.end_lineno is not None and node.end_lineno - node.lineno + 1 > most
    }


def test_no_function_is_longer_than_a_page() -> None:
    assert _longer((ast.FunctionDef, ast.AsyncFunctionDef), LINES_OF_A_FUNCTION) == set()


def test_no_class_is_longer_than_a_reader_takes_in_but_for_those_that_were() -> None:
    assert _longer(ast.ClassDef, LINES_OF_A_CLASS) == LONG_CLASSES
