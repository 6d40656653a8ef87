"""Every refusal of a submitted form, word for word, in a table: `python -m tests.unit.task_spec.test_refused_forms`."""

from __future__ import annotations

from pathlib import Path

from tests.unit.task_spec.refused_forms import written

TABLE = Path(__file__).parents[2] / "data" / "refusals_of_submission.txt"


def test_each_form_that_is_refused_is_refused_in_the_words_of_the_table() -> None:
    assert written().splitlines() == TABLE.read_text().splitlines()


if __name__ == "__main__":
    TABLE.write_text(written())
