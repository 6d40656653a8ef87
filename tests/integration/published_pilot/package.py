"""The published pilot, and the namespace of its own without which it never runs."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.integration.one_process import ROOT
from tests.integration.published_source import NotHere, PublishedSource

PILOT = PublishedSource(
    "panda-pilot", "3.7.0.36", "8b5b754fa9fbea835b14215c2957a59a393988113c5209f5c826e6c67b46f03e", "panda-pilot"
)
#: names a folder with another pilot (`python -m tests.integration.published_pilot`)
FOLDER = "ORRERY_PILOT_FOLDER"
KEPT = ROOT / ".local" / "published_pilot"
#: the pilot ends processes that have no parent: it runs only where none but its own can be seen
NAMESPACE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")


def published_pilot() -> Path:
    """The folder with its `pilot.py`. Raises NotHere."""
    for program in ("curl", "unshare"):
        if shutil.which(program) is None:
            raise NotHere(f"the published pilot needs the program {program}")
    allowed = subprocess.run([*NAMESPACE, "true"], capture_output=True, text=True, check=False)
    if allowed.returncode:
        raise NotHere(f"no PID namespace of its own is to be had for the pilot: {allowed.stderr.strip()}")
    other = os.environ.get(FOLDER)
    return Path(other) if other else PILOT.unpacked(KEPT, "pilot.py")
