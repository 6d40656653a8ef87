"""The generated parts of the README are what the code says."""

from __future__ import annotations

from services.cli.readme import README, regenerated


def test_the_diagrams_of_the_readme_are_drawn_from_the_code() -> None:
    text = README.read_text(encoding="utf-8")
    assert text == regenerated(text), "run `python -m services.cli.readme`"
