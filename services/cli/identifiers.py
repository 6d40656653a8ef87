"""Reads ids from arguments, or from standard input where an argument is `-`.

So one verb takes what another prints.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

from services.cli.failures import WrongUsage

STANDARD_INPUT = "-"
_ID_KEYS = ("task_id", "jediTaskID", "taskID", "job_id", "PandaID", "parked_id", "id")


def read_ids(arguments: Sequence[str], source: TextIO | None = None) -> list[int]:
    """Every id once, in the order given.

    Raises WrongUsage for what is not an id, or when there is none at all.
    """
    texts: list[str] = []
    for argument in arguments:
        if argument == STANDARD_INPUT:
            texts.extend(ids_in_text((source or sys.stdin).read()))
        else:
            texts.extend(part for part in re.split(r"[,\s]+", argument) if part)
    if not texts and STANDARD_INPUT in arguments:
        raise WrongUsage("ids: none on standard input: there is nothing to do")
    if not texts:
        raise WrongUsage("ids: none given: name them, or write - and give them on standard input")
    return list(dict.fromkeys(_id(text) for text in texts))


def ids_in_text(text: str) -> list[str]:
    """Ids of a text: JSON as `--json` prints it, or the first word of every line."""
    stripped = text.strip()
    if stripped.startswith(("[", "{")):
        try:
            return [str(found) for found in _ids_in_json(json.loads(stripped))]
        except ValueError as error:
            raise WrongUsage(f"standard input: looks like JSON but is not: {error}") from None
    found = []
    for line in stripped.splitlines():
        words = re.split(r"[,\s]+", line.strip())
        found.extend(words if all(word.isdigit() for word in words) else words[:1])
    return [word for word in found if word]


def _ids_in_json(content: Any) -> Iterable[int | str]:
    if isinstance(content, bool) or content is None:
        raise WrongUsage(f"standard input: {content!r} is not an id")
    if isinstance(content, int | str):
        yield content
    elif isinstance(content, list):
        for one in content:
            yield from _ids_in_json(one)
    elif isinstance(content, dict):
        key = next((key for key in _ID_KEYS if key in content), None)
        if key is None:
            raise WrongUsage(f"standard input: an object without an id; expected one of {', '.join(_ID_KEYS)}")
        yield from _ids_in_json(content[key])


def _id(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", text) or int(text) == 0:
        raise WrongUsage(f"id: value {text!r}: must be a whole number greater than zero")
    return int(text)
