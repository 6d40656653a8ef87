"""Samples of what the field's live systems answer."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "data" / "conformance"


def sample(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(gzip.decompress((FOLDER / f"{name}.json.gz").read_bytes()))
    return loaded
