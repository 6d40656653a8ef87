"""Names of which an index would read most others."""

from __future__ import annotations

import pytest

from shared.model.common_names import SAMPLED, _is_like, is_common

NAMES = [f"user.ben.{n}" for n in range(SAMPLED)]


@pytest.mark.parametrize(
    ("part", "common"),
    [
        ("ben*user", True), ("*ben*user*", True), ("BEN.user", True), ("ser.benuse", False), ("ben", False),
        ("user*", False), ("rare", False), ("ben*rare", False), ("user.ben.77", False), ("_ben", True),
    ],
)  # fmt: skip
def test_a_name_is_common_whose_threes_many_have_while_few_are_like_it(part: str, common: bool) -> None:
    assert is_common(part, NAMES) is common


def test_of_few_names_none_is_common() -> None:
    assert not is_common("ben*user", NAMES[:-1])


def test_a_name_of_many_equal_letters_is_looked_at_in_no_more_steps_than_it_has() -> None:
    """An expression with as many gaps would try each way to fill them, for centuries."""
    names = ["a" * 200 + ".b"] * SAMPLED
    assert not is_common("*a" * 20 + "*b", names)


@pytest.mark.parametrize(
    ("name", "pattern", "like"),
    [
        ("ab", "a*b", True), ("aba", "a*b", False), ("aab", "*a*ab", True), ("ab", "*ab*ab", False),
        ("a", "a*a", False), ("aXbYc", "a*b*c", True), ("abc", "*", True), ("abc", "*b*", True), ("abc", "*d*", False),
    ],
)  # fmt: skip
def test_the_parts_of_a_pattern_follow_one_another(name: str, pattern: str, like: bool) -> None:
    assert _is_like(name, pattern) is like
