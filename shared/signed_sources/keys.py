"""Signs permissions to fetch a task's archives, and verifies them, with secrets of a file.

The file has one key in each line: the first signs, all verify. A new first line rotates it; what older keys signed is
good until it expires. Processes read the file again when it has changed.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import sys
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Sequence
from pathlib import Path

KEY_BYTES = 32
LOOKED_AT_EVERY_S = 10.0
#: older keys that a rotation keeps
KEPT_KEYS = 3
_SIGNATURE_BYTES = 24
_PERMISSION = re.compile(r"([1-9][0-9]{0,18})\.([1-9][0-9]{0,10})\.([A-Za-z0-9_-]{32})", re.ASCII)
_LINE = re.compile(rf"[0-9a-f]{{{2 * KEY_BYTES}}}")


class SourceKeys:
    """The keys of one process; without a file they live in this object only (tests)."""

    def __init__(
        self, keys: Sequence[bytes], path: Path | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._keys = tuple(keys)
        self._path, self._clock = path, clock
        self._changed_at = _changed_at(path)
        self._look_at = clock() + LOOKED_AT_EVERY_S

    @classmethod
    def generate(cls) -> SourceKeys:
        """One fresh key."""
        return cls([secrets.token_bytes(KEY_BYTES)])

    @classmethod
    def from_file(cls, path: Path, *, clock: Callable[[], float] = time.monotonic) -> SourceKeys:
        """Raises OSError; ValueError for a file that is not made of keys."""
        return cls(read_keys(path), path, clock=clock)

    def permission(self, task_id: int, expires_at: float) -> str:
        """A permission to fetch the archives that a task names until a time (seconds since the epoch).

        Example: "12.1795600000.Uu2...".
        """
        self._look()
        said = f"{task_id}.{int(expires_at)}"
        return f"{said}.{_signature(self._keys[0], said)}"

    def task_of(self, permission: str, now: float) -> int | None:
        """The task whose archives it opens; None where it is expired or was not signed by us."""
        found = _PERMISSION.fullmatch(permission)
        if found is None or int(found[2]) <= now:
            return None
        said, signature = permission.rpartition(".")[0], found[3]
        if not self._have_signed(said, signature):
            self._look(at_once=True)  # another process may have signed it with a key that is new here
            if not self._have_signed(said, signature):
                return None
        return int(found[1])

    def _have_signed(self, said: str, signature: str) -> bool:
        return any(hmac.compare_digest(_signature(key, said), signature) for key in self._keys)

    def _look(self, *, at_once: bool = False) -> None:
        """Read the file again if it has changed; one that cannot be read changes nothing."""
        now = self._clock()
        if self._path is None or (now < self._look_at and not at_once):
            return
        self._look_at = now + LOOKED_AT_EVERY_S
        changed_at = _changed_at(self._path)
        if changed_at == self._changed_at:
            return
        try:
            self._keys, self._changed_at = read_keys(self._path), changed_at
        except (OSError, ValueError):
            return


def _signature(key: bytes, said: str) -> str:
    found = hmac.digest(key, said.encode(), hashlib.sha256)[:_SIGNATURE_BYTES]
    return urlsafe_b64encode(found).decode()


def _changed_at(path: Path | None) -> int | None:
    try:
        return None if path is None else path.stat().st_mtime_ns
    except OSError:
        return None


def read_keys(path: Path) -> tuple[bytes, ...]:
    """Raises OSError; ValueError, which tells nothing of what is in the file."""
    lines = path.read_text(errors="replace").split()
    wrong = [number for number, line in enumerate(lines, 1) if _LINE.fullmatch(line) is None]
    if wrong or not lines:
        where = f"line {wrong[0]}" if wrong else "it is empty"
        raise ValueError(f"{where}: not a key; allowed: {2 * KEY_BYTES} of 0-9a-f in each line")
    return tuple(map(bytes.fromhex, lines))


def create_file(path: Path) -> None:
    """Make the file with one key, readable by its owner only, if there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _written(path, [secrets.token_bytes(KEY_BYTES)])
    try:
        os.link(temporary, path)  # fails if another process was faster: then its key is the one
    except FileExistsError:
        return
    finally:
        temporary.unlink()


def rotate_file(path: Path) -> None:
    """Put a new key first; the newest of the others stay. Raises OSError, ValueError."""
    before = read_keys(path)
    _written(path, [secrets.token_bytes(KEY_BYTES), *before[:KEPT_KEYS]]).replace(path)


def _written(path: Path, keys: Sequence[bytes]) -> Path:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write("".join(f"{key.hex()}\n" for key in keys))
    return temporary


if __name__ == "__main__":
    (named,) = sys.argv[1:] or [os.environ.get("ORRERY_SOURCE_KEY_FILE", "")]
    (rotate_file if Path(named).exists() else create_file)(Path(named))
