"""A person with a working directory and a token, who calls the published client as programs and as a library."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TIMEOUT_S = 120
PROGRAMS = {
    "prun": "from pandaclient.PrunScript import main; main()",
    "pathena": "import pandaclient.PathenaScript",
    "pcontainer": "import pandaclient.PcontainerScript",
    "phpo": "from pandaclient.PhpoScript import main; main()",
    "pbook": "import pandaclient.PBookScript as pbook; pbook.main()",
}
#: calls one function of the library; what it gives is the last line
_CALL = """
import json, sys
from pandaclient import Client
name, arguments = json.loads(sys.argv[1])
found = getattr(Client, name)(*arguments)
print()
print(json.dumps(found, default=lambda one: {name: getattr(one, name) for name in one._attributes} | (
    {"Files": one.Files} if hasattr(one, "Files") else {})))
"""


@dataclass(frozen=True)
class Said:
    """What a program printed, and its exit code."""

    code: int
    text: str

    @property
    def task_id(self) -> int:
        """Of the task that was submitted."""
        found = re.search(r"jediTaskID=(\d+)", self.text)
        assert found is not None and self.code == 0, self.text
        return int(found.group(1))


@dataclass(frozen=True)
class Person:
    """Calls go to one address; nothing else is reached."""

    client: Path
    directory: Path
    address: str
    credentials: dict[str, str]
    outside: dict[str, str] = field(default_factory=dict)

    def work_directory(self) -> Path:
        """With a script that would be run."""
        work = self.directory / "work"
        work.mkdir(parents=True, exist_ok=True)
        if not (work / "run.sh").exists():
            (work / "run.sh").write_text("echo done > out.txt\n")
        return work

    def run(self, program: str, *arguments: str, within: str = ".") -> Said:
        """One of PROGRAMS, in a folder of the working directory."""
        return self._python(PROGRAMS[program], *arguments, within=within)

    def programs(self) -> Path:
        """Where programs find one another: pcontainer calls prun."""
        folder = self.directory / "programs"
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "prun").exists():
            (folder / "prun").write_text(f"#!/bin/sh\nexec {sys.executable} -c '{PROGRAMS['prun']}' \"$@\"\n")
            (folder / "prun").chmod(0o755)
        return folder

    def call(self, function: str, *arguments: Any) -> Any:
        """What a function of the library returns."""
        said = self._python(_CALL, json.dumps([function, arguments]))
        assert said.code == 0, said.text
        return json.loads(said.text.rstrip().rpartition("\n")[2])

    def _python(self, program: str, *arguments: str, within: str = ".") -> Said:
        work = self.work_directory()
        there = f"{self.address}/server/panda"
        environment = {
            "PATH": f"{self.programs()}:{os.environ['PATH']}",
            "HOME": str(self.directory),
            "PYTHONPATH": str(self.client),
        }
        environment |= {"PANDA_URL": there, "PANDA_URL_SSL": there, "PANDACACHE_URL": there, "COLUMNS": "200"}
        environment |= {"PANDA_BEHIND_REAL_LB": "1", "PANDA_CONFIG_ROOT": str(self.directory)}
        environment |= {"PYTHONDONTWRITEBYTECODE": "1", **self.outside, **self.credentials}
        process = subprocess.Popen(
            [sys.executable, "-c", program, *arguments], env=environment, cwd=work / within, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        try:
            text, _ = process.communicate(timeout=TIMEOUT_S)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(20)
        return Said(process.returncode, text)
