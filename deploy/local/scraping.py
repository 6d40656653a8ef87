"""Where Prometheus finds the copies of services: a file that it follows (`file_sd_configs`)."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from deploy.local.ports import LOOPBACK
from deploy.local.services import GATEWAY, Copy

TARGETS = "targets.json"


def write_targets(path: Path, copies: Sequence[Copy]) -> None:
    """One target for each copy, with its service as a label; the gateway has no numbers of its own."""
    told = [
        {"targets": [f"{LOOPBACK}:{one.port}"], "labels": {"service": one.service, "copy": one.name}}
        for one in copies
        if one.service != GATEWAY
    ]
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(told, indent=1))
    temporary.replace(path)
