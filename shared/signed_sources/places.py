"""Where the text of a job names its source URLs: each gets the permission of the job behind it."""

from __future__ import annotations

import binascii
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

import orjson

#: between the source URL of a task and the permission
PATH = "/signed"
#: as PanDA's scripts take it; some clients write the address itself where others write ${SURL}
_STATED = re.compile(r"--sourceURL[ =]+[\"']?(https?://[^\s\"']+)")
_ADDRESS = re.compile(r"(?<![^\s\"'=])https?://[^\s\"']+")
_FETCHED = "/cache/"
_ENCODED = re.compile(r"[A-Za-z0-9+/]{8,}={0,2}")
COMMAND_LINE = "jobPars"
#: no permission is this
_SPOT = "\x07"
_MARK = orjson.dumps(f"{PATH}/{_SPOT}").decode()[1:-1]


def spots_of(spec: Mapping[str, Any]) -> list[int] | None:
    """The places in the JSON text of a specification that `filled` fills; None where it cannot.

    It cannot where there is no source URL, and where more than that must change: a command line that is encoded, or an
    address with a slash at its end.
    """
    if not spec.get("sourceURL") and "--sourceURL" not in str(spec.get(COMMAND_LINE) or ""):
        return None
    parts = orjson.dumps(signed(spec, _SPOT)).decode().split(_MARK)
    if len(parts) == 1 or "".join(parts) != orjson.dumps(spec).decode():
        return None
    return list(accumulate(map(len, parts[:-1])))


def filled(text: str, spots: Sequence[int], permission: str) -> str:
    """The JSON text of a specification with the permission behind each of its source URLs."""
    places = [0, *spots, len(text)]
    return f"{PATH}/{permission}".join(text[begin:end] for begin, end in pairwise(places))


def signed(spec: Mapping[str, Any], permission: str) -> dict[str, Any]:
    """A specification whose command lines have the permission behind the source URL; so have its steps.

    Example: of "-a jobO.1.tar.gz --sourceURL http://h:1" it makes "... --sourceURL http://h:1/signed/<permission>".
    """
    parameters, of_task = str(spec.get(COMMAND_LINE) or ""), str(spec.get("sourceURL") or "").rstrip("/")
    plain = _decoded(parameters, of_task)
    texts = plain or parameters
    addresses = {one.rstrip("/") for one in (of_task, *_STATED.findall(texts)) if one}

    def of_word(found: re.Match[str]) -> str:
        address, sign, name = found[0].partition(_FETCHED)
        address = address.rstrip("/")
        return f"{address}{PATH}/{permission}{sign}{name}" if address in addresses else found[0]

    def with_permission(text: str) -> str:
        return _ADDRESS.sub(of_word, text)

    found = {name: _each(value, with_permission) if isinstance(value, dict) else value for name, value in spec.items()}
    line = with_permission(texts)
    return {**found, COMMAND_LINE: b64encode(line.encode()).decode() if plain else line}


def _each(step: dict[str, Any], change: Callable[[str], str]) -> dict[str, Any]:
    return {name: change(value) if isinstance(value, str) else value for name, value in step.items()}


def _decoded(parameters: str, source_url: str) -> str:
    """The command line of a task that has it encoded (encJobParams); "" where it is plain."""
    if _ENCODED.fullmatch(parameters) is None:
        return ""
    try:
        found = b64decode(parameters, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
    return found if "--sourceURL" in found or (source_url and source_url in found) else ""
