"""How values travel to and from PostgreSQL."""

from __future__ import annotations

from typing import Any

import asyncpg
import orjson


def _encode_jsonb(value: Any) -> bytes:
    return b"\x01" + orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY)


def _decode_jsonb(data: bytes) -> Any:
    return orjson.loads(memoryview(data)[1:])


def _encode_json(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY)


async def prepare_connection(connection: asyncpg.Connection) -> None:
    """jsonb and json as Python values in binary format, so that COPY accepts them too."""
    await connection.set_type_codec(
        "jsonb", schema="pg_catalog", encoder=_encode_jsonb, decoder=_decode_jsonb, format="binary"
    )
    await connection.set_type_codec(
        "json", schema="pg_catalog", encoder=_encode_json, decoder=orjson.loads, format="binary"
    )
