"""The reason of a failure is stored, whatever it quotes."""

from __future__ import annotations

from shared.messaging.failures import LONGEST_REASON, Permanent, Transient


def test_a_reason_with_characters_that_no_column_takes_is_still_told() -> None:
    assert Permanent("the file 'a\x00b' is not known").reason == "the file 'a\\x00b' is not known"
    assert Transient("half a pair \ud800").reason == "half a pair \\ud800"
    assert len(Permanent("x" * 1_000_000).reason) == LONGEST_REASON
