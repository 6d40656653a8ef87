"""Which files a simulated payload writes: those that its command line names.

Source: PanDA's scripts on worker nodes. runGen and runAthena write the values of `-o "{'name': 'file'}"`; buildGen,
buildJob and runMerge the file behind `-o`; transformations the one behind `--output...File=`. The lists of a
specification are what the pilot looks for afterwards; a payload never sees them.
"""

from __future__ import annotations

import binascii
import contextlib
import re
from base64 import b64decode
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

_BETWEEN_NAMES = re.compile(r"[\s'\"=,;:{}\[\]()@^]+")
_ENCODED = re.compile(r"[A-Za-z0-9+/]{8,}={0,2}")
STEPS = ("preprocess", "postprocess", "coprocess")


def named_files(spec: Mapping[str, Any]) -> frozenset[str]:
    """Every name in the command lines of a job, of its steps, and in lists that its pilot writes."""
    return frozenset(word for text in _texts(spec) for word in _BETWEEN_NAMES.split(unquote(text)) if word)


def _texts(spec: Mapping[str, Any]) -> Iterator[str]:
    line = str(spec.get("jobPars") or "")
    yield line
    if _ENCODED.fullmatch(line):  # encJobParams
        with contextlib.suppress(binascii.Error, UnicodeDecodeError):
            yield b64decode(line, validate=True).decode()
    yield str(spec.get("writeToFile") or "")
    for step in STEPS:
        if isinstance(given := spec.get(step), Mapping):
            yield str(given.get("args") or "")
