"""Bodies of pilots' requests: gzip known by its magic bytes (pilots send no Content-Encoding), JSON or form.

Each call has limits of its own, several times what published pilots send; what is beyond them is refused unread.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, quote_plus

import orjson
from starlette.requests import Request

from shared.web.intake import PARSED, SEAT, BrokenBody, read_body
from shared.web.json_text import SMALL_BYTES, BodyLimits, TooMuch, is_plain, parse_json
from shared.web.large_fields import LARGEST_FIELD_BYTES, marked, without_large_fields

KIB, MIB = 1024, 1024 * 1024
ACQUIRE = BodyLimits(16 * KIB, n_values=500, depth=8, exact=False)
HEARTBEAT = BodyLimits(64 * KIB, n_values=2_000, depth=20, exact=False)
#: with the list of output files and the payload's own report, both usually JSON in a text
REPORT = BodyLimits(2 * MIB, n_values=50_000, depth=50, exact=False)
BULK = BodyLimits(8 * MIB, n_values=200_000, depth=50, exact=False)
#: reports beyond those limits are read up to so many bytes; fields beyond these are left out, the rest is believed
LARGEST_REPORT_BYTES = 32 * MIB
FIELD = BodyLimits(LARGEST_FIELD_BYTES, n_values=25_000, depth=40)
#: where the objects with the fields of a report are: the body itself, those of its list, those of a list
OF_ONE, OF_LIST, OF_LIST_IN_TEXT = 1, 3, 2
#: 10 000 ids of up to 20 bytes
IDS = BodyLimits(256 * KIB, n_values=11_000, depth=4, exact=False)
#: JSON that stands in a text of a report
INNER = BodyLimits(1 * MIB, n_values=50_000, depth=50, exact=False)
MOST_FORM_FIELDS = 200
#: bytes of an odd JSON text that is read all the same: the parser that takes it holds the event loop
LARGEST_ODD = 512 * KIB


class BadBody(ValueError):
    """The body cannot be understood; the text says why."""


def without_nul(value: Any) -> Any:
    """The value with no character NUL in any of its texts: PostgreSQL keeps none, and logs of payloads have them."""
    if isinstance(value, str):
        return value.replace("\x00", "")
    if isinstance(value, dict):
        return {without_nul(key): without_nul(one) for key, one in value.items()}
    if isinstance(value, list):
        return [without_nul(one) for one in value]
    return value


async def json_of(text: bytes, limits: BodyLimits) -> Any:
    """The value of a JSON text, be it an odd one. Raises TooMuch, orjson.JSONDecodeError."""
    try:
        return await parse_json(text, limits)
    except orjson.JSONDecodeError as error:
        try:
            return odd_json(text)
        except ValueError:
            raise error from None


def odd_json(text: bytes) -> Any:
    """The value of a JSON text with what pilots' own writers put into it: NaN, Infinity, halves of surrogate pairs,
    control characters, bytes that are no UTF-8 (the last three become readable text). It was counted before. Raises
    ValueError for what is no JSON, and for a large one."""
    if len(text) > LARGEST_ODD:
        raise ValueError(f"not JSON, and with {len(text)} bytes too large to look for odd values")
    try:
        return _without_surrogates(json.loads(text.decode("utf-8", "replace"), strict=False))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_without_surrogates(one) for one in value]
    return value


async def fields_of(request: Request, limits: BodyLimits) -> dict[str, Any]:
    """The fields of the body. Raises BadBody for one that is beyond the limits, broken, or neither a JSON object nor a
    form; Crowded when too much is being worked on."""
    try:
        raw = await read_body(request.scope, request.receive, limits, request.scope.get(SEAT))
        return await parse_body(raw, request.headers.get("content-type", ""), limits, request.scope.get(PARSED))
    except (TooMuch, BrokenBody) as error:
        raise BadBody(f"body: {error}") from None


async def report_fields_of(request: Request, limits: BodyLimits, level: int) -> tuple[dict[str, Any], bool]:
    """The fields of a body with reports, and whether it is small. Fields of a report that are too large are left out
    (`left_out` tells), as a pilot does not send a final report again. Raises BadBody, Crowded like `fields_of`."""
    try:
        most = replace(limits, n_bytes=LARGEST_REPORT_BYTES)
        raw = await read_body(request.scope, request.receive, most, request.scope.get(SEAT))
        text = raw.lstrip()
        content_type = request.headers.get("content-type", "")
        is_json = _is_json(text, content_type)
        if is_json:
            text = await readable(text, limits, level)
        elif level == OF_ONE and len(text) > limits.n_bytes:  # the text of a list is looked at when it is unquoted
            text = _without_large_pairs(text, limits)
        if (is_json or level == OF_ONE) and len(text) > limits.n_bytes:
            raise TooMuch(f"{len(text)} bytes in many fields are not allowed; at most {limits.n_bytes} are")
        return await parse_body(text, content_type, limits), len(raw) <= SMALL_BYTES
    except (TooMuch, BrokenBody) as error:
        raise BadBody(f"body: {error}") from None


async def readable(text: bytes, limits: BodyLimits, level: int) -> bytes:
    """The JSON text of reports without their fields that are too large."""
    if len(text) <= limits.n_bytes and is_plain(text, limits):
        return text
    return await without_large_fields(text, level, FIELD, limits)


def _is_json(text: bytes, content_type: str) -> bool:
    return text[:1] == b"{" or "json" in content_type


def _without_large_pairs(text: bytes, limits: BodyLimits) -> bytes:
    """A form without the pairs that are too large, and without the largest until it is within its limit."""
    pairs = text.split(b"&", MOST_FORM_FIELDS)
    if len(pairs) > MOST_FORM_FIELDS:
        raise TooMuch(f"more than {MOST_FORM_FIELDS} fields of a form are not allowed")
    n_bytes = len(text)
    for number in sorted(range(len(pairs)), key=lambda one: -len(pairs[one])):
        size = len(pairs[number])
        if size <= FIELD.n_bytes and n_bytes <= limits.n_bytes:
            break
        name = pairs[number][:KIB].partition(b"=")[0]
        pairs[number] = name + b"=" + quote_plus(marked(f"{size} bytes; at most {FIELD.n_bytes} are read")).encode()
        n_bytes -= size
    return b"&".join(pairs)


async def parse_body(raw: bytes, content_type: str, limits: BodyLimits, parsed: Any = None) -> dict[str, Any]:
    """The fields of an unpacked body; `parsed` is its value where it was parsed before."""
    text = raw.lstrip()
    if not text:
        return {}
    is_json = _is_json(text, content_type)
    fields = await _json_object(text, limits, parsed) if is_json else await _form(text)
    may_have_nul = b"\\u0000" in text if is_json else b"%00" in text or b"\x00" in text
    return without_nul(fields) if may_have_nul else fields


async def _json_object(text: bytes, limits: BodyLimits, parsed: Any) -> dict[str, Any]:
    try:
        value = parsed if isinstance(parsed, dict) else await json_of(text, limits)
    except orjson.JSONDecodeError as error:
        raise BadBody(f"body: not JSON: {error}") from None
    if not isinstance(value, dict):
        raise BadBody(f"body: a JSON {type(value).__name__} is not allowed; an object is")
    return value


async def _form(text: bytes) -> dict[str, Any]:
    """Unquoting is Python, which a thread does without stopping the others."""
    if len(text) <= SMALL_BYTES // 4:
        return _pairs(text)
    return await asyncio.to_thread(_pairs, text)


def _pairs(text: bytes) -> dict[str, Any]:
    try:
        fields = MOST_FORM_FIELDS
        pairs = parse_qsl(text.decode("utf-8"), keep_blank_values=True, strict_parsing=True, max_num_fields=fields)
    except (ValueError, UnicodeDecodeError) as error:
        raise BadBody(f"body: neither a JSON object nor a form: {error}") from None
    return dict(pairs)
