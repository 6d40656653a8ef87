"""The table at a package's door, its docstring, names what is in its folder; its folders import one way."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.contracts.imports_of_folders import ROOT, arrows, in_circles
from tests.contracts.test_rooms import FOLDERS, MODULES, SERVICES
from tests.contracts.test_rooms import ROOMS as ROOMS_OF_SERVICES

ROOMS_OF = [ROOT / "services" / service / room for service, rooms in ROOMS_OF_SERVICES.items() for room in rooms]
PACKAGES = sorted(
    path.parent for base in ("services", "shared", "deploy") for path in (ROOT / base).rglob("__init__.py")
)
#: doors that do not tell the truth yet; it may only get shorter
NOT_YET: set[str] = set()


def name_of(package: Path) -> str:
    return str(package.relative_to(ROOT))


def door_of(package: Path) -> str:
    """The docstring of a package."""
    return ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""


def rows_of(door: str) -> set[str]:
    """The names in the first cells of its tables."""
    lines = door.splitlines()
    borders = [number for number, line in enumerate(lines) if re.fullmatch(r"=+  +=+", line)]
    rows = [line for begin, end in zip(borders[::2], borders[1::2], strict=True) for line in lines[begin + 1 : end]]
    return {name for row in rows for name in re.findall(r"`([\w.]+)`", re.split(r"  ", row, maxsplit=1)[0])}


def contents_of(package: Path) -> set[str]:
    """The modules and folders of a package, but for those that every service has."""
    found = {path.stem for path in package.glob("*.py")} | {path.parent.name for path in package.glob("*/__init__.py")}
    return found - {"__init__"} - (MODULES | FOLDERS if package in SERVICES or package in ROOMS_OF else set())


WITH_TABLE = [package for package in PACKAGES if rows_of(door_of(package)) and name_of(package) not in NOT_YET]


@pytest.mark.parametrize("package", WITH_TABLE, ids=name_of)
def test_the_table_at_the_door_names_what_is_there(package: Path) -> None:
    known = contents_of(package) | (MODULES | FOLDERS if package in SERVICES or package in ROOMS_OF else set())
    assert rows_of(door_of(package)) - known == set()
    assert contents_of(package) - set(re.findall(r"`([\w.]+)`", door_of(package))) == set()


@pytest.mark.parametrize("service", SERVICES, ids=lambda path: path.name)
def test_a_service_with_stages_has_a_table_at_its_door(service: Path) -> None:
    assert service in WITH_TABLE or not contents_of(service) or name_of(service) in NOT_YET


def test_a_door_that_tells_the_truth_by_now_is_no_exception_any_more() -> None:
    for name in NOT_YET:
        package = ROOT / name
        door = door_of(package)
        assert contents_of(package) - set(re.findall(r"`([\w.]+)`", door)) or rows_of(door) - contents_of(package)


ROOMS = [*(one for one in PACKAGES if len(one.relative_to(ROOT).parts) == 2 or one in ROOMS_OF), ROOT / "shared"]


@pytest.mark.parametrize("package", ROOMS, ids=name_of)
def test_folders_that_lie_beside_each_other_import_one_way(package: Path) -> None:
    assert in_circles(arrows(package)) == set()
