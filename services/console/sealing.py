"""Seals what a browser keeps for the console, so that nobody reads or changes it."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

import orjson

from shared.auth.keyring import Keyring, NoKey, Sealed


class Seals:
    """With the keys of a file; what was sealed for one purpose opens for no other."""

    def __init__(self, keyring: Keyring) -> None:
        self._keyring = keyring

    def seal(self, content: Mapping[str, Any], *purpose: str) -> str:
        """A word for a cookie, a form or an address. Example: 3f2a...b1.AbC-..."""
        sealed = self._keyring.seal(orjson.dumps(dict(content)).decode(), *purpose)
        return f"{sealed.key_id}.{base64.urlsafe_b64encode(sealed.data).decode().rstrip('=')}"

    def open(self, word: str, *purpose: str) -> dict[str, Any] | None:
        """What was sealed; None for what was not sealed here for this purpose."""
        key_id, _, text = word.partition(".")
        try:
            data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
            content: dict[str, Any] = orjson.loads(self._keyring.open(Sealed(key_id, data), *purpose))
        except (NoKey, ValueError, binascii.Error):
            return None
        return content
