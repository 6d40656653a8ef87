"""What a line of a log may hold of others' texts: no second line, nothing unseen, no secret."""

from __future__ import annotations

import re

from shared.model.visible_text import visible

NOT_SHOWN = "(not shown)"
#: tokens wherever they stand; what follows the names of credentials in headers and addresses; passwords in addresses
_SECRETS = (
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?"), NOT_SHOWN),
    (re.compile(r"(?i)\b(bearer|basic)(?:\s+|%20)[\w+/=.~-]{16,}"), rf"\1 {NOT_SHOWN}"),
    (
        re.compile(r"(?i)\b(token_key|access_token|id_token|token|secret|password)=[^\s&'\";]{4,}"),
        rf"\1={NOT_SHOWN}",
    ),
    (re.compile(r"(\w+://[^\s:/@]*):[^\s@/]+@"), rf"\1:{NOT_SHOWN}@"),
)


def without_secrets(text: str) -> str:
    """The text; tokens, token keys and passwords in it are not shown."""
    for pattern, shown in _SECRETS:
        text = pattern.sub(shown, text)
    return text


def one_line(text: str) -> str:
    """What a line of a log may hold of a text."""
    return visible(without_secrets(text))
