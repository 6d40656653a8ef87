"""Reads bodies of pilots' requests, gzipped or not, JSON or form.

Gzip is known by its magic bytes, because pilots send no Content-Encoding.

Each call has limits of its own, several times what published pilots send; what is beyond them is refused unread.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qsl, quote_plus

import orjson

from services.job_dispatch.api.call import PilotCall
from services.job_dispatch.api.large_fields import LARGEST_FIELD_BYTES, marked, without_large_fields
from services.job_dispatch.api.requests import BadBody
from shared.web.intake import PARSED, SEAT, BrokenBody, header_of, read_body
from shared.web.json_text import SMALL_BYTES, BodyLimits, Raw, TooMuch, is_plain, parse_json

KIB, MIB = 1024, 1024 * 1024
ACQUIRE = BodyLimits(16 * KIB, n_values=500, depth=8, exact=False, odd=True)
HEARTBEAT = BodyLimits(64 * KIB, n_values=2_000, depth=20, exact=False, odd=True)
#: with the list of output files and the payload's own report, both usually JSON in a text
REPORT = BodyLimits(2 * MIB, n_values=50_000, depth=50, exact=False, odd=True)
BULK = BodyLimits(8 * MIB, n_values=200_000, depth=50, exact=False, odd=True)
#: reports beyond those limits are read up to so many bytes; fields beyond these are left out, the rest is believed
LARGEST_REPORT_BYTES = 32 * MIB
FIELD = BodyLimits(LARGEST_FIELD_BYTES, n_values=25_000, depth=40)
#: where the objects with the fields of a report are: the body itself, those of its list, those of a list
OF_ONE, OF_LIST, OF_LIST_IN_TEXT = 1, 3, 2
#: 10 000 ids of up to 20 bytes
IDS = BodyLimits(256 * KIB, n_values=11_000, depth=4, exact=False, odd=True)
#: JSON that stands in a text of a report
INNER = BodyLimits(1 * MIB, n_values=50_000, depth=50, exact=False, odd=True)
MOST_FORM_FIELDS = 200
#: where an application keeps what gives a call's limits the sizes that are set
BODY_SIZES = "body_sizes"


def _sized(request: PilotCall, limits: BodyLimits) -> BodyLimits:
    """The limits with the sizes that are set, where the application has any."""
    app = request.scope.get("app")
    sizes = None if app is None else getattr(app.state, BODY_SIZES, None)
    return limits if sizes is None else sizes(limits)


def without_nul(value: Any) -> Any:
    """The value without the character NUL in its texts: PostgreSQL keeps none, and logs have them."""
    if isinstance(value, str):
        return value.replace("\x00", "")
    if isinstance(value, dict):
        return {without_nul(key): without_nul(one) for key, one in value.items()}
    if isinstance(value, list):
        return [without_nul(one) for one in value]
    return value


def usual_object(raw: Raw, limits: BodyLimits) -> dict[str, Any] | None:
    """The fields of a small JSON object without anything unusual; None for all other bodies."""
    if raw[:1] != b"{" or len(raw) > limits.n_bytes or b"\\u0000" in raw or not is_plain(raw, limits):
        return None
    try:
        found: dict[str, Any] = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None
    return found


def content_type_of(request: PilotCall) -> str:
    """What the caller says the body is."""
    return (header_of(request.scope, b"content-type") or b"").decode("latin-1")


async def fields_of(request: PilotCall, limits: BodyLimits) -> dict[str, Any]:
    """The fields of the body.

    Raises BadBody for a body that is beyond the limits, broken, or neither a JSON object nor a form; Crowded when too
    much is being worked on.
    """
    limits = _sized(request, limits)
    try:
        raw = await _sent(request, limits)
        found = usual_object(raw, limits)
        if found is not None:
            return found
        return await parse_body(raw, content_type_of(request), limits, request.scope.get(PARSED))
    except (TooMuch, BrokenBody) as error:
        raise BadBody(f"body: {error}") from None


@lru_cache(maxsize=16)
def _of_reports(limits: BodyLimits) -> BodyLimits:
    """The same limits for a body whose fields that are too large are left out; each is worked out once."""
    return replace(limits, n_bytes=LARGEST_REPORT_BYTES)


async def report_fields_of(request: PilotCall, limits: BodyLimits, level: int) -> tuple[dict[str, Any], bool]:
    """The fields of a body with reports, and whether it is small.

    Fields of a report that are too large are left out (`left_out` tells), as a pilot does not send a final report
    again. Raises BadBody, Crowded like `fields_of`.
    """
    limits = _sized(request, limits)
    try:
        raw = await _sent(request, _of_reports(limits))
        if len(raw) <= SMALL_BYTES and (found := usual_object(raw, limits)) is not None:
            return found, True
        text, n_sent = without_leading_blanks(raw), len(raw)
        content_type = content_type_of(request)
        is_json = _is_json(text, content_type)
        if is_json:
            text = await readable(text, limits, level)
        elif level == OF_ONE and len(text) > limits.n_bytes:  # the text of a list is looked at when it is unquoted
            text = _without_large_pairs(text, limits)
        if (is_json or level == OF_ONE) and len(text) > limits.n_bytes:
            raise TooMuch(f"{len(text)} bytes in many fields are not allowed; at most {limits.n_bytes} are")
        return await parse_body(text, content_type, limits), n_sent <= SMALL_BYTES
    except (TooMuch, BrokenBody) as error:
        raise BadBody(f"body: {error}") from None


async def _sent(request: PilotCall, limits: BodyLimits) -> Raw:
    """The body; of a GET its query, which is a form.

    A pilot whose disk is full cannot write the file with its form, and sends what it has to say in the address.
    """
    if request.scope.get("method") != "GET":
        return await read_body(request.scope, request.receive, limits, request.scope.get(SEAT))
    query: bytes = request.scope["query_string"]
    if len(query) > limits.n_bytes:
        raise TooMuch(f"{len(query)} bytes are not allowed; at most {limits.n_bytes} are")
    return query


async def readable(text: Raw, limits: BodyLimits, level: int) -> Raw:
    """The JSON text of reports without their fields that are too large."""
    if len(text) <= limits.n_bytes and is_plain(text, limits):
        return text
    return await without_large_fields(text, level, FIELD, limits)


def _is_json(text: Raw, content_type: str) -> bool:
    return text[:1] == b"{" or "json" in content_type


def _without_large_pairs(text: Raw, limits: BodyLimits) -> bytes:
    """A form without the pairs that are too large, and without the largest until it is within its limit."""
    ends = [-1]
    while ends[-1] < len(text):
        end = text.find(b"&", ends[-1] + 1)
        ends.append(end if end >= 0 else len(text))
        if len(ends) > MOST_FORM_FIELDS + 1:
            raise TooMuch(f"more than {MOST_FORM_FIELDS} fields of a form are not allowed")
    pairs = [(before + 1, end) for before, end in pairwise(ends)]
    n_bytes, gone = len(text), set[int]()
    for start, end in sorted(pairs, key=lambda one: one[0] - one[1]):
        if end - start <= FIELD.n_bytes and n_bytes <= limits.n_bytes:
            break
        gone.add(start)
        n_bytes -= end - start
    return b"&".join(_left_out_pair(text, *one) if one[0] in gone else text[slice(*one)] for one in pairs)


def _left_out_pair(text: Raw, start: int, end: int) -> bytes:
    name = bytes(text[start : min(end, start + KIB)].partition(b"=")[0])
    return name + b"=" + quote_plus(marked(f"{end - start} bytes; at most {FIELD.n_bytes} are read")).encode()


def without_leading_blanks(raw: Raw) -> Raw:
    """The text from its first sign on. Raises BadBody where that does not come soon."""
    if not raw[:1].isspace():
        return raw
    beginning = raw[:SMALL_BYTES]
    n_blanks = len(beginning) - len(beginning.lstrip())
    if n_blanks == SMALL_BYTES < len(raw):
        raise BadBody(f"body: begins with more than {SMALL_BYTES} blanks")
    if isinstance(raw, bytearray):
        del raw[:n_blanks]  # nothing is copied
        return raw
    return raw[n_blanks:]


async def parse_body(raw: Raw, content_type: str, limits: BodyLimits, parsed: Any = None) -> dict[str, Any]:
    """The fields of an unpacked body; `parsed` is its value where it was parsed before."""
    text = without_leading_blanks(raw)
    if not text:
        return {}
    is_json = _is_json(text, content_type)
    fields = await _json_object(text, limits, parsed) if is_json else await _form(text)
    may_have_nul = b"\\u0000" in text if is_json else b"%00" in text or b"\x00" in text
    if not may_have_nul:
        return fields
    return without_nul(fields) if len(text) <= SMALL_BYTES else await asyncio.to_thread(without_nul, fields)


async def _json_object(text: Raw, limits: BodyLimits, parsed: Any) -> dict[str, Any]:
    try:
        value = parsed if isinstance(parsed, dict) else await parse_json(text, limits)
    except orjson.JSONDecodeError as error:
        raise BadBody(f"body: not JSON: {error}") from None
    if not isinstance(value, dict):
        raise BadBody(f"body: a JSON {type(value).__name__} is not allowed; an object is")
    return value


async def _form(text: Raw) -> dict[str, Any]:
    """Unquoting is Python, which a thread does without stopping the others."""
    if len(text) <= SMALL_BYTES // 4:
        return _pairs(text)
    return await asyncio.to_thread(_pairs, text)


def _pairs(text: Raw) -> dict[str, Any]:
    try:
        fields = MOST_FORM_FIELDS
        pairs = parse_qsl(text.decode("utf-8"), keep_blank_values=True, strict_parsing=True, max_num_fields=fields)
    except (ValueError, UnicodeDecodeError) as error:
        raise BadBody(f"body: neither a JSON object nor a form: {error}") from None
    return dict(pairs)
