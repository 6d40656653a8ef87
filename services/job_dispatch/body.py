"""Bodies of pilots' requests: gzip known by its magic bytes (pilots send no Content-Encoding), JSON or form."""

from __future__ import annotations

import zlib
from typing import Any
from urllib.parse import parse_qsl

import orjson

GZIP_MAGIC = b"\x1f\x8b"
LARGEST_BODY_BYTES = 16 * 1024 * 1024


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


def parse_body(raw: bytes, content_type: str = "") -> dict[str, Any]:
    """The fields of a body. Raises BadBody for one that is too large, broken, or neither a JSON object nor a form."""
    data = _unzip(raw) if raw[:2] == GZIP_MAGIC else raw
    if len(data) > LARGEST_BODY_BYTES:
        raise BadBody(f"body: {len(data)} bytes are not allowed; at most {LARGEST_BODY_BYTES} are")
    text = data.lstrip()
    if not text:
        return {}
    is_json = text[:1] == b"{" or "json" in content_type
    fields = _json_object(text) if is_json else _form(text)
    may_have_nul = b"\\u0000" in text if is_json else b"%00" in text or b"\x00" in text
    return without_nul(fields) if may_have_nul else fields


def _unzip(raw: bytes) -> bytes:
    unpacker = zlib.decompressobj(wbits=31)
    try:
        data = unpacker.decompress(raw, LARGEST_BODY_BYTES + 1)
    except zlib.error as error:
        raise BadBody(f"body: broken gzip: {error}") from None
    if not unpacker.eof and len(data) <= LARGEST_BODY_BYTES:
        raise BadBody("body: broken gzip: it ends too early")
    return data


def _json_object(text: bytes) -> dict[str, Any]:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise BadBody(f"body: not JSON: {error}") from None
    if not isinstance(value, dict):
        raise BadBody(f"body: a JSON {type(value).__name__} is not allowed; an object is")
    return value


def _form(text: bytes) -> dict[str, Any]:
    try:
        pairs = parse_qsl(text.decode("utf-8"), keep_blank_values=True, strict_parsing=True, max_num_fields=200)
    except (ValueError, UnicodeDecodeError) as error:
        raise BadBody(f"body: neither a JSON object nor a form: {error}") from None
    return dict(pairs)
