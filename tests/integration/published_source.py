"""A published source distribution, unpacked and unmodified: downloaded once, pinned by version and hash."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

DOWNLOAD_TIMEOUT_S = 120


class NotHere(Exception):
    """Why a published package cannot run on this machine."""


@dataclass(frozen=True)
class PublishedSource:
    """One package: `panda-pilot` 3.7.0.36 is unpacked as panda-pilot-3.7.0.36, or as `folder_name` says.

    `sha256` is None only where a person asked for this version.
    """

    name: str
    version: str
    sha256: str | None
    folder_name: str

    def unpacked(self, kept: Path, has: str) -> Path:
        """Its folder below `kept`, in which there is the file `has`. Raises NotHere."""
        folder = kept / f"{self.folder_name}-{self.version}"
        if not (folder / has).exists():
            kept.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=kept) as directory:
                self._unpack(Path(directory))
                with suppress(OSError):  # another process of the tests was faster
                    (Path(directory) / folder.name).rename(folder)
        return folder

    def _unpack(self, directory: Path) -> None:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", self.name]
        command += ["--dest", str(directory), f"{self.name}=={self.version}"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired:
            said = f"{self.name} {self.version} was not downloaded within {DOWNLOAD_TIMEOUT_S} s"
            raise NotHere(said) from None
        archive = directory / f"{self.folder_name}-{self.version}.tar.gz"
        if done.returncode or not archive.exists():
            raise NotHere(f"{self.name} {self.version} cannot be downloaded: {done.stderr.strip()[-300:]}")
        found = hashlib.sha256(archive.read_bytes()).hexdigest()
        assert self.sha256 in (None, found), f"{archive.name} has the hash {found}, not the one that is pinned"
        with tarfile.open(archive) as content:
            content.extractall(directory, filter="data")
