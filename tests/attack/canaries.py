"""Texts that are put into everything that somebody owns; where one appears, something was told."""

from __future__ import annotations

import itertools
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field

from shared.auth import Caller
from shared.auth.access import AccessRule, Whose

_NUMBERS = itertools.count(1)
_RUN = secrets.token_hex(3)


@dataclass(frozen=True)
class Canary:
    """`text` stands in `what`, which `rule` tells of what is `whose`."""

    text: str
    what: str
    rule: AccessRule
    whose: Whose


@dataclass
class Canaries:
    """All that were put anywhere, and a way to find them."""

    by_text: dict[str, Canary] = field(default_factory=dict)

    def make(self, what: str, rule: AccessRule, whose: Whose) -> str:
        """A text that nothing else holds: letters and digits only, so that it survives quoting."""
        text = f"canary{_RUN}n{next(_NUMBERS):03d}"
        self.by_text[text] = Canary(text, what, rule, whose)
        return text

    def found_in(self, text: str) -> set[str]:
        """All that stand in a text."""
        return set(_PATTERN.findall(text))

    def told_to(self, caller: Caller | None, text: str) -> Iterator[Canary]:
        """Canaries in a text whose rule does not let the caller see them."""
        for found in sorted(self.found_in(text)):
            one = self.by_text.get(found)
            if one is not None and (caller is None or not one.rule.allows(caller, one.whose)):
                yield one


_PATTERN = re.compile(rf"canary{_RUN}n\d{{3,}}")
