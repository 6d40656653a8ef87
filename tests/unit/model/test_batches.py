from shared.model.batches import batches


def test_a_long_sequence_is_cut_in_its_order_and_keeps_its_type() -> None:
    assert list(batches([1, 2, 3, 4, 5], 2)) == [[1, 2], [3, 4], [5]]
    assert list(batches((1, 2), 2)) == [(1, 2)]
    assert list(batches(b"abc", 2)) == [b"ab", b"c"]
    assert list(batches([], 2)) == []
