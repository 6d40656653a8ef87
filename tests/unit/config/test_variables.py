"""Environment variables that nobody reads are told, with what was probably meant."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import services
from services.cli.addresses import SERVICES, variable_of
from shared.config.settings import PREFIX, Settings
from shared.config.variables import known_variables, unknown_variables

ROOT = Path(__file__).resolve().parents[3]


def family_of(kind: type[Settings]) -> list[type[Settings]]:
    return [kind, *(one for child in kind.__subclasses__() for one in family_of(child))]


def test_every_setting_of_every_service_is_known() -> None:
    for service in pkgutil.iter_modules(services.__path__):
        try:
            importlib.import_module(f"services.{service.name}.environment")
        except ModuleNotFoundError:
            continue
    fields = {name for one in family_of(Settings) for name in one.model_fields}
    assert len(fields) > len(Settings.model_fields)
    assert {PREFIX + name.upper() for name in fields} - known_variables() == set()
    assert {variable_of(one) for one in SERVICES} - known_variables() == set()


def test_every_variable_that_the_project_speaks_of_is_known() -> None:
    places = [ROOT / "compose.yaml", ROOT / "Makefile", ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    places += [path for name in ("services", "shared", "deploy", ".ci") for path in (ROOT / name).rglob("*")]
    spoken = {
        name
        for path in places
        if path.is_file() and path.suffix in (".py", ".md", ".yaml", ".yml", ".sh", ".conf", "")
        for name in re.findall(r"\bORRERY_[A-Z][A-Z_]*[A-Z]\b", path.read_text(errors="ignore"))
    }
    assert len(spoken) > 20
    assert spoken - known_variables() == set()


def test_a_misspelt_variable_is_told_in_one_line_with_the_nearest_name() -> None:
    given = ["PATH", "ORRERY_DATABASE_URL", "ORRERY_DATABSE_URL", "ORRERY_ZZZ", "ORRERY_TOKEN"]
    assert unknown_variables(given) == [
        "ORRERY_DATABSE_URL is not a setting and is ignored; did you mean ORRERY_DATABASE_URL?",
        "ORRERY_ZZZ is not a setting and is ignored",
    ]
