"""The published pilot, unpacked: downloaded once from the package index, pinned by version and hash."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
from contextlib import suppress
from pathlib import Path

from tests.integration.one_process import ROOT

VERSION = "3.7.0.36"
SHA256 = "8b5b754fa9fbea835b14215c2957a59a393988113c5209f5c826e6c67b46f03e"
KEPT = ROOT / ".local" / "published_pilot"
DOWNLOAD_TIMEOUT_S = 120
#: the pilot ends processes that have no parent: it runs only where none but its own can be seen
NAMESPACE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")


class NotHere(Exception):
    """Why the published pilot cannot run on this machine."""


def published_pilot() -> Path:
    """The folder with its `pilot.py`. Raises NotHere."""
    for program in ("curl", "unshare"):
        if shutil.which(program) is None:
            raise NotHere(f"the published pilot needs the program {program}")
    allowed = subprocess.run([*NAMESPACE, "true"], capture_output=True, text=True, check=False)
    if allowed.returncode:
        raise NotHere(f"no PID namespace of its own is to be had for the pilot: {allowed.stderr.strip()}")
    folder = KEPT / f"panda-pilot-{VERSION}"
    if not (folder / "pilot.py").exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=KEPT) as directory:
            _unpack(Path(directory))
            with suppress(OSError):  # another process of the tests was faster
                (Path(directory) / folder.name).rename(folder)
    return folder


def _unpack(directory: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
    command += ["--dest", str(directory), f"panda-pilot=={VERSION}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise NotHere(f"panda-pilot {VERSION} was not downloaded within {DOWNLOAD_TIMEOUT_S} s") from None
    archive = directory / f"panda-pilot-{VERSION}.tar.gz"
    if done.returncode or not archive.exists():
        raise NotHere(f"panda-pilot {VERSION} cannot be downloaded: {done.stderr.strip()[-300:]}")
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    assert found == SHA256, f"{archive.name} has the hash {found}, not the one that is pinned"
    with tarfile.open(archive) as content:
        content.extractall(directory, filter="data")
