"""What came back, whatever the caller's protocol: an envelope, a pilot's flat answer, a text, a file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

LEGACY = "/server/panda/"
#: in the answers of published pilots: not authenticated, not permitted
FLAT_REFUSALS = {50, 60}


@dataclass(frozen=True)
class Answer:
    """One answer, read once."""

    path: str
    status: int
    content: bytes
    seconds: float = 0.0

    @cached_property
    def text(self) -> str:
        return self.content.decode(errors="replace")

    @cached_property
    def body(self) -> Any:
        """The JSON that it is; None where it is none."""
        try:
            return json.loads(self.text)
        except ValueError:
            return None

    @property
    def data(self) -> Any:
        """What the envelope holds."""
        return self.body.get("data") if isinstance(self.body, dict) else None

    @property
    def is_success(self) -> bool:
        """Whether it says that it did what was asked."""
        if self.status != 200:
            return False
        if isinstance(self.body, list) and self.body and isinstance(self.body[0], bool):
            return self.body[0]
        if isinstance(self.body, dict) and "success" in self.body:
            return bool(self.body["success"]) and not self._says_code()
        if isinstance(self.body, dict) and "StatusCode" in self.body:
            return self.body["StatusCode"] == 0
        return not self.path.startswith(LEGACY) or self.text.startswith(("Succeeded", "StatusCode=0"))

    def _says_code(self) -> bool:
        """An envelope of pilots or of commands that holds the number of a refusal."""
        return isinstance(self.data, dict) and self.data.get("StatusCode", 0) != 0

    @property
    def is_unknown_caller(self) -> bool:
        """Whether it says that the caller is nobody it knows: 401, or what stands for it."""
        if self.status == 401:
            return True
        return self._flat_code() == 50 or (self.path.startswith(LEGACY) and self._is_refused_pair("token"))

    @property
    def is_forbidden(self) -> bool:
        """Whether it is refused for who the caller is, in any of the forms."""
        if self.status in (401, 403) or self._flat_code() in FLAT_REFUSALS or self._is_refused_pair("needs the r"):
            return True
        return isinstance(self.body, dict) and self.body.get("success") is False and self.data == 3

    def _flat_code(self) -> Any:
        return self.body.get("StatusCode") if isinstance(self.body, dict) else None

    def _is_refused_pair(self, words: str) -> bool:
        return isinstance(self.body, list) and self.body[:1] == [False] and words in str(self.body[1:])

    def __str__(self) -> str:
        return f"HTTP {self.status} {self.text[:160]!r}"
