"""Names of which an index would read most others."""

from __future__ import annotations

import pytest

from shared.model.common_names import SAMPLED, is_common

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
