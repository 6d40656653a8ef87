"""The lock file says everything that is installed, and nothing about where it comes from."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[3]
LINES = (PROJECT / "requirements.lock").read_text().splitlines()


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_each_line_pins_one_version_and_names_no_index() -> None:
    for line in LINES:
        assert re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+( ; [a-z_]+ [<>=]+ \"[0-9.]+\")?", line), line


def test_whatever_the_project_asks_for_is_pinned() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    asked = project["project"]["dependencies"] + project["project"]["optional-dependencies"]["development"]
    asked += project["build-system"]["requires"] + project["project"]["optional-dependencies"]["console"]
    names = {_plain(re.split(r"[\[<>=!~; ]", requirement, maxsplit=1)[0]) for requirement in asked}
    assert names - {_plain(line.split("==")[0]) for line in LINES} == set()
