"""Run the tests of the published pilot with another pilot than the pinned one.

Its argument is a folder with a `pilot.py` (a clone of PanDAWMS/pilot3: its newest versions are published nowhere else),
or a version of panda-pilot on PyPI, which is unpacked into a folder that is deleted afterwards. The rest is for pytest.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.integration.published_pilot.package import FOLDER, PILOT
from tests.integration.published_source import NotHere, PublishedSource


def main(which: str, *arguments: str) -> int:
    """The exit code of the tests."""
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(which)
        if not folder.is_dir():
            source = PublishedSource(PILOT.name, which, None, PILOT.folder_name)
            try:
                folder = source.unpacked(Path(directory), "pilot.py")
            except NotHere as error:
                sys.exit(str(error))
        if not (folder / "pilot.py").exists():
            sys.exit(f"{folder} has no pilot.py")
        command = [sys.executable, "-m", "pytest", "--night", str(Path(__file__).parent), *arguments]
        environment = {**os.environ, FOLDER: str(folder.resolve())}
        return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(f"{__doc__}\nusage: python -m tests.integration.published_pilot FOLDER|VERSION [ARGUMENTS OF PYTEST]")
    sys.exit(main(*sys.argv[1:]))
