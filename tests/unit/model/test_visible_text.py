"""Texts that others wrote, on a screen or in a log."""

from __future__ import annotations

import sys
import unicodedata

import pytest

from shared.model.visible_text import visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J\x1b]0;owned\x07", r"\x1b[2J\x1b]0;owned\x07"),
        ("\x9b31m\x7f", r"\x9b31m\x7f"),
        ("a\rb\nc\td\x00", r"a\rb\nc\td\x00"),
        ("user\u202egpj.exe", r"user\u202egpj.exe"),
        ("\u200e\u200f\u061c\u2066\u2069", r"\u200e\u200f\u061c\u2066\u2069"),
        ("ad\u200ba\u200d\ufeff\u00ad", r"ad\u200ba\u200d\ufeff\xad"),
        ("a\u2028b\u2029c\u00a0d", r"a\u2028b\u2029c\xa0d"),
        ("\U000e0041\U000e007f", r"\U000e0041\U000e007f"),
        ("\ud83d alone \udc80", r"\ud83d alone \udc80"),
        ("\u3164\u2800\ufe0f\u034f", r"\u3164\u2800\ufe0f\u034f"),
    ],
)
def test_what_is_not_seen_is_written_as_an_escape(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize("text", ["", "plain text: 5 > 3", "Zürich, 東京, Ἀθῆναι, 😀", "[red]:bomb:[/] \\x1b"])
def test_a_text_that_is_seen_whole_stays_as_it_is(text: str) -> None:
    assert visible(text) is text


def test_line_feeds_and_tabs_stay_where_lines_are_shown_and_nothing_else_does() -> None:
    assert visible("a\n\tb\r\nc\x0b\x0c\x85", lines=True) == "a\n\tb\\r\nc\\x0b\\x0c\\x85"


def test_no_character_of_the_kinds_that_are_not_seen_is_left() -> None:
    everything = "".join(chr(code) for code in range(sys.maxunicode + 1))
    left = {unicodedata.category(one) for one in visible(everything)}
    assert left.isdisjoint({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
    assert {one for one in visible(everything) if unicodedata.category(one) == "Zs"} == {" "}
