"""What others wrote is text; times have a zone, sizes a unit, states a sign beside their colour."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from services.console.showing.texts import (
    duration,
    facts,
    lines,
    number,
    own,
    relative,
    says,
    short,
    size,
    state,
    word,
)

NOW = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("<script>alert(1)</script>", "<bdi>&lt;script&gt;alert(1)&lt;/script&gt;</bdi>"),
        ("a\u202egnp.exe", "<bdi>a\\u202egnp.exe</bdi>"),
        ('"><img src=x>', "<bdi>&#34;&gt;&lt;img src=x&gt;</bdi>"),
        ("שלום", "<bdi>שלום</bdi>"),
        ("a\x1b[2J\x00", "<bdi>a\\x1b[2J\\x00</bdi>"),
        (None, ""),
        ("", ""),
        (0, "<bdi>0</bdi>"),
    ],
)
def test_what_somebody_wrote_is_text_with_a_direction_of_its_own(given: object, shown: str) -> None:
    assert own(given) == shown


def test_a_name_of_100_kb_is_cut() -> None:
    assert len(own("x" * 100_000)) < 21_000 and len(short("x" * 100_000)) < 200


def test_a_task_that_waits_says_its_nearest_miss_first() -> None:
    assert says("48 queues, 0 passed; nearest miss: Q (memory)") == (
        "<bdi>nearest miss: Q (memory); 48 queues, 0 passed</bdi>"
    )
    assert says("killed") == "<bdi>killed</bdi>" and says(None) == ""


def test_a_text_of_several_lines_keeps_them_and_nothing_that_is_not_seen() -> None:
    assert lines("a\nb\u202e<c>") == "a\nb\\u202e<c>"


def test_a_state_has_a_sign_and_its_word() -> None:
    assert state("failed") == '<span class="state bad"><span aria-hidden="true">✗</span> failed</span>'
    assert "▶" in state("running") and "✓" in state("done") and "○" in state("pending")
    assert "&lt;b&gt;" in state("<b>")


@pytest.mark.parametrize(
    ("value", "shown"), [(0, "0 B"), (999, "999 B"), (5_963_776, "5.96 MB"), (10**15, "1 PB"), (None, ""), (True, "")]
)
def test_sizes_have_units(value: object, shown: str) -> None:
    assert size(value) == shown


def test_numbers_are_grouped_and_what_is_none_is_empty() -> None:
    assert number(1234567) == "1\u202f234\u202f567" and number(0) == "0"
    assert number(None) == number("x") == number(True) == ""
    assert number(12345.0) == "12\u202f345" and number(0.12345) == "0.1235" and number(float("inf")) == "inf"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(1, "1 s"), (90, "90 s"), (5400, "90 min"), (86400, "24 h"), (200_000, "2.3 d"), (10**7, "116 d")],
)  # fmt: skip
def test_durations_have_one_unit(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


def test_a_time_is_before_or_after_now() -> None:
    assert relative(NOW - timedelta(minutes=5), NOW) == "5 min ago"
    assert relative(NOW + timedelta(minutes=20), NOW) == "in 20 min"
    assert relative(NOW, NOW) == "now"


def test_facts_are_texts_lists_and_objects() -> None:
    assert facts(["a", "<b>"]) == "<bdi>a</bdi>, <bdi>&lt;b&gt;</bdi>"
    assert facts({"n": 1000}) == "<bdi>n</bdi>: 1\u202f000" and facts(False) == "no"


def test_a_part_of_an_address_is_one_part() -> None:
    assert word("a/b?c=d&e #") == "a%2Fb%3Fc%3Dd%26e%20%23"
