"""Encrypts what people keep, with keys of a file (AES-256-GCM); whose it is, is authenticated.

The file has a key a line, in base64: the last one encrypts, all of them decrypt. Lines that begin with # are not read.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import os
from pathlib import Path
from typing import NamedTuple

import orjson
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

log = logging.getLogger(__name__)

VARIABLE = "ORRERY_SECRETS_KEY_FILE"
KEY_BYTES, NONCE_BYTES = 32, 12
_SAID = "# Keys of secrets, the newest last; see `orrery secrets --help`. Whoever has this file can read them.\n"


class NoKey(Exception):
    """Nothing can be encrypted or decrypted here; the text says why."""


class Sealed(NamedTuple):
    """An encrypted text and the id of its key."""

    key_id: str
    data: bytes


class Keyring:
    """The keys of a file, read again when it has changed; without a file there are none."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._keys: dict[str, AESGCM] = {}
        self._read_at: tuple[int, int] | None = None
        if path is not None:
            self._keys, self._read_at = _read(path), _state_of(path)

    @classmethod
    def generate(cls) -> Keyring:
        """One fresh key, which ends with this object."""
        found, key = cls(None), os.urandom(KEY_BYTES)
        found._keys = {_id_of(key): AESGCM(key)}
        return found

    def newest(self) -> str:
        """The id of the key that encrypts. Raises NoKey."""
        self._look()
        if not self._keys:
            raise NoKey(f"nothing can be encrypted here: {VARIABLE} names no file")
        return next(reversed(self._keys))

    def ids(self) -> tuple[str, ...]:
        """Of all keys, the newest last."""
        return tuple(self._keys)

    def seal(self, text: str, *belongs_to: str) -> Sealed:
        """Encrypted with the newest key, for these alone: copied to others it does not decrypt. Raises NoKey."""
        key_id, nonce = self.newest(), os.urandom(NONCE_BYTES)
        return Sealed(key_id, nonce + self._keys[key_id].encrypt(nonce, text.encode(), orjson.dumps(belongs_to)))

    def open(self, sealed: Sealed, *belongs_to: str) -> str:
        """The text. Raises NoKey for one of another key or of somebody else."""
        if sealed.key_id not in self._keys:
            self._look()
        key = self._keys.get(sealed.key_id)
        if key is None:
            raise NoKey(f"the key {sealed.key_id} is not in the file that {VARIABLE} names")
        nonce, data = sealed.data[:NONCE_BYTES], sealed.data[NONCE_BYTES:]
        try:
            return key.decrypt(nonce, data, orjson.dumps(belongs_to)).decode()
        except (InvalidTag, ValueError):
            raise NoKey(f"it was not encrypted with the key {sealed.key_id} for {' of '.join(belongs_to)}") from None

    def _look(self) -> None:
        """Another process may have added a key; a file that cannot be read changes nothing."""
        if self._path is None:
            return
        try:
            state = _state_of(self._path)
            if state != self._read_at:
                self._keys, self._read_at = _read(self._path), state
        except (OSError, ValueError) as error:
            log.error("%s=%s: known keys go on: %s", VARIABLE, self._path, error)


def add_key(path: Path) -> str:
    """Add a new key, which encrypts from now on, to a file that is its owner's only; its id.

    Raises OSError, and ValueError where the file has other things in it.
    """
    key = os.urandom(KEY_BYTES)
    lines = path.read_text() if path.exists() else _SAID
    if path.exists():
        _read(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(lines.rstrip("\n") + "\n" + base64.b64encode(key).decode() + "\n")
    temporary.replace(path)
    return _id_of(key)


def create_key_file(path: Path) -> None:
    """A file with one key, unless there is one."""
    if not path.exists():
        add_key(path)


def _read(path: Path) -> dict[str, AESGCM]:
    """Raises OSError, ValueError."""
    found = {}
    lines = path.read_text(encoding="ascii", errors="replace").splitlines()
    for number, line in enumerate(lines, 1):
        if not (text := line.strip()) or text.startswith("#"):
            continue
        try:
            key = base64.b64decode(text, validate=True)
        except ValueError:
            key = b""
        if len(key) != KEY_BYTES:
            raise ValueError(
                f"line {number} is no key; allowed: {KEY_BYTES} bytes in base64, or a line with # in front"
            )
        found[_id_of(key)] = AESGCM(key)
    if not found:
        raise ValueError(f"there is no key in it; allowed: a line of {KEY_BYTES} bytes in base64")
    return found


def _state_of(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_mtime_ns, found.st_ino


def _id_of(key: bytes) -> str:
    """What names a key; the key cannot be made of it."""
    return hashlib.sha256(b"orrery secrets key " + key).hexdigest()[:12]
