"""JSON files in which one command tells the next what runs.

Only their owner can read them; each is replaced in one step.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def read_record(path: Path, directory: Path) -> dict[str, Any]:
    """The record; empty if none was written or it was copied from the directory of another clone."""
    try:
        record = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) and record.get("directory") == str(directory) else {}


def write_record(path: Path, directory: Path, record: Mapping[str, Any]) -> None:
    """Replace the record in one step, so that nobody reads half of it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump({"directory": str(directory), **record}, file, indent=1)
    temporary.replace(path)
