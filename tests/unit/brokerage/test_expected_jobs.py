"""Jobs that were decided upon count until the statistics have them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shared.snapshot.expected import LIFETIME_S, ExpectedJobs, expected_of_chunk

WEIGHTS = st.dictionaries(st.sampled_from("ABCDEFGHIJ"), st.floats(1e-6, 1e6), min_size=1)


@given(WEIGHTS, st.integers(0, 5000))
def test_every_job_of_a_chunk_is_expected_somewhere_and_within_one_of_its_part(
    weights: dict[str, float], n_jobs: int
) -> None:
    expected = expected_of_chunk(weights, n_jobs)
    assert sum(expected.values()) == n_jobs
    for label, number in expected.items():
        assert abs(number - n_jobs * weights[label] / sum(weights.values())) < 1 + 1e-6


def test_four_jobs_on_ten_equal_queues_are_four_and_not_none() -> None:
    assert expected_of_chunk(dict.fromkeys("ABCDEFGHIJ", 1.0), 4) == {
        **dict.fromkeys("ABCD", 1),
        **dict.fromkeys("EFGHIJ", 0),
    }


def test_without_candidates_nothing_is_expected() -> None:
    assert expected_of_chunk({}, 10) == {}


def test_a_chunk_is_expected_until_its_own_jobs_are_counted() -> None:
    expected = ExpectedJobs()
    expected.expect(1, {"A": 3}, 0.0)
    expected.expect(2, {"A": 4, "B": 1}, 0.0)
    expected.expect(3, {"A": 9}, 0.0, vo="cms")
    assert not expected.counted([7]) and expected.by_label() == {("", "A"): 7, ("", "B"): 1, ("cms", "A"): 9}
    assert expected.counted([1, 3, 7]) and expected.by_label() == {("", "A"): 4, ("", "B"): 1}


def test_a_chunk_that_is_decided_again_counts_once() -> None:
    expected = ExpectedJobs()
    expected.expect(1, {"A": 3}, 0.0)
    expected.expect(1, {"B": 2}, 1.0)
    assert expected.by_label() == {("", "B"): 2}


def test_what_was_never_made_is_forgotten_after_a_while() -> None:
    expected = ExpectedJobs()
    expected.expect(1, {"A": 3}, 0.0)
    assert not expected.forget_old(LIFETIME_S) and expected.forget_old(LIFETIME_S + 1)
    assert not expected.by_label()
