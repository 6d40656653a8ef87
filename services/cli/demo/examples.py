"""The example world and tasks of `deploy/examples`, and how a run gets tasks with names of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from services.cli.demo.profiles import DemoProfile
from services.cli.demo.stage import project_directory
from services.cli.failures import WrongUsage


@dataclass(frozen=True)
class Example:
    """One task as it will be submitted, and the status it should end in."""

    file: str
    parameters: Mapping[str, Any]
    expected: str = "done"


def folder() -> Path:
    """`deploy/examples` of the clone."""
    return project_directory() / "deploy" / "examples"


def catalogue_files() -> list[Path]:
    """The datasets that the tasks read."""
    found = folder() / "catalogue"
    return sorted([*found.glob("*.json"), *found.glob("*.json.gz")])


def read_examples(profile: DemoProfile, run: str) -> list[Example]:
    """The tasks, made smaller where the profile says so.

    The run's name stands in their names and in their outputs' names.
    """
    examples = []
    for path in sorted((folder() / "tasks").glob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        parameters = content.get("task_parameters", content)
        parameters = parameters | dict(profile.limits.get(path.stem, {}))
        examples.append(Example(path.stem, renamed(parameters, run)))
    if not examples:
        raise WrongUsage(f"{folder() / 'tasks'}: no example task there")
    return examples


def renamed(parameters: Mapping[str, Any], run: str) -> dict[str, Any]:
    """The task under another name; outputs, whose names begin with the task's, follow."""
    old = str(parameters["taskName"])
    new = f"{old.rstrip('/')}.{run}" + ("/" if old.endswith("/") else "")

    def follow(value: Any) -> Any:
        if isinstance(value, str):
            return value.replace(old.rstrip("/"), new.rstrip("/"))
        if isinstance(value, Mapping):
            return {key: follow(one) for key, one in value.items()}
        if isinstance(value, list):
            return [follow(one) for one in value]
        return value

    return {key: follow(value) for key, value in parameters.items()}
