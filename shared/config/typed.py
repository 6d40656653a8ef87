"""Stored texts of runtime parameters as values of their types."""

from __future__ import annotations

import json
import math
from typing import Any

_TRUE, _FALSE = {"true", "1", "yes", "on"}, {"false", "0", "no", "off"}


def typed(value: str, kind: str) -> Any:
    """A stored value as its type: str, int, float, bool or json. Raises ValueError naming value and type."""
    try:
        if kind == "str":
            return value
        if kind == "int":
            return int(value)
        if kind == "float" and math.isfinite(float(value)):
            return float(value)
        if kind == "json":
            return json.loads(value)
        if kind == "bool" and value.strip().lower() in _TRUE | _FALSE:
            return value.strip().lower() in _TRUE
    except ValueError:
        pass
    else:
        if kind not in ("bool", "float"):
            raise ValueError(f"unknown type {kind!r}: allowed are str, int, float, bool, json")
    raise ValueError(f"{value!r} is not of type {kind}")
