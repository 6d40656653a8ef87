"""JSON of others: counted before it is parsed, and never parsed in one go when it is large."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.web import json_text
from shared.web.json_text import BodyLimits, TooMuch, parse_json, parse_json_now

AMPLE = BodyLimits(n_bytes=64 * 2**20, n_values=5_000_000, depth=40)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=90) | st.just('"[{,\\' * 20),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=9), inner, max_size=6),
    max_leaves=40,
)


@given(values, st.integers(1, 60), st.booleans())
@settings(max_examples=300, deadline=None)
def test_what_is_parsed_in_pieces_is_what_the_parser_gives(value: Any, piece: int, indented: bool) -> None:
    raw = orjson.dumps(value, option=orjson.OPT_INDENT_2 if indented else 0)
    sizes = json_text.SMALL_BYTES, json_text.PIECE_BYTES
    json_text.SMALL_BYTES = json_text.PIECE_BYTES = piece
    try:
        assert parse_json_now(raw, AMPLE) == value
        assert asyncio.run(parse_json(raw, AMPLE)) == value
    finally:
        json_text.SMALL_BYTES, json_text.PIECE_BYTES = sizes


@given(st.text(alphabet='[]{},:"\\1a \n', max_size=40), st.integers(1, 12))
@settings(max_examples=500, deadline=None)
def test_rubbish_is_refused_in_pieces_exactly_when_the_parser_refuses_it(text: str, piece: int) -> None:
    raw = text.encode()
    try:
        expected = orjson.loads(raw)
    except orjson.JSONDecodeError:
        expected = ValueError
    sizes = json_text.SMALL_BYTES, json_text.PIECE_BYTES
    json_text.SMALL_BYTES = json_text.PIECE_BYTES = piece
    try:
        found = parse_json_now(raw, AMPLE)
    except ValueError:
        found = ValueError
    finally:
        json_text.SMALL_BYTES, json_text.PIECE_BYTES = sizes
    assert found == expected


@pytest.mark.parametrize(
    ("raw", "limits", "said"),
    [
        (b"[" * 60_000, BodyLimits(), "nested deeper than 50"),
        (b'{"a":' * 51 + b"1" + b"}" * 51, BodyLimits(), "nested deeper than 50"),
        (b"[" + b"1," * 20_000 + b"1]", BodyLimits(), "more than 10000 values"),
        (b"[" + b"1," * 4_000_000 + b"1]", BodyLimits(n_bytes=16 * 2**20), "more than 10000 values"),
        (b"[" * 8_000_000, BodyLimits(n_bytes=16 * 2**20), "nested deeper than 50"),
        (b'{"a":"' + b"x" * 3_000_000 + b'","b":1}', BodyLimits(n_bytes=16 * 2**20), "a text of 300"),
        (b'"' + b"x" * 3_000_000 + b'"', BodyLimits(n_bytes=16 * 2**20), "a text of 300"),
        (b" " * 70_000, BodyLimits(), "70000 bytes are not allowed; at most 65536"),
    ],
)
async def test_what_is_too_much_is_refused_with_the_count_and_the_limit(
    raw: bytes, limits: BodyLimits, said: str
) -> None:
    with pytest.raises(TooMuch, match=said):
        await parse_json(raw, limits)


def test_brackets_and_commas_in_texts_count_for_nothing() -> None:
    value = {"log": "[{," * 15_000, "more": ['\\"[[' * 100]}
    assert parse_json_now(orjson.dumps(value), BodyLimits()) == value


async def test_the_loop_runs_again_and_again_while_a_large_text_is_parsed() -> None:
    """A large text is parsed in at least as many turns of the loop as it has slices of time."""
    raw = orjson.dumps({"job_ids": list(range(400_000))})
    n_turns, ended = 0, False

    async def others() -> None:
        nonlocal n_turns
        while not ended:
            n_turns += 1
            await asyncio.sleep(0)

    turning = asyncio.create_task(others())
    assert (await parse_json(raw, AMPLE))["job_ids"][-1] == 399_999
    ended = True
    await turning
    assert n_turns > 10


@pytest.mark.parametrize("number", [2**63, 2**64, 10**30, -(10**40), 2**63 - 1, 7])
@pytest.mark.parametrize("n_others", [0, 60_000])
def test_a_whole_number_beyond_64_bits_stays_whole_unless_the_call_takes_it_as_a_float(
    number: int, n_others: int
) -> None:
    raw = b'{"others":[' + b",".join([b"1"] * n_others) + b'],"value":%d}' % number
    found = parse_json_now(raw, AMPLE)["value"]
    assert (found, type(found)) == (number, int)
    rounded = parse_json_now(raw, dataclasses.replace(AMPLE, exact=False))["value"]
    assert rounded == (number if -(2**63) <= number < 2**64 else float(number))
