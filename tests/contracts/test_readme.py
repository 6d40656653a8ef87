"""The documents hold what the code says, and stay short."""

from __future__ import annotations

from pathlib import Path

import pytest

from services.cli import readme
from services.cli.readme import DOCUMENTS, README, regenerated


@pytest.mark.parametrize("path", DOCUMENTS, ids=str)
def test_the_generated_parts_are_as_the_code_says(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == regenerated(path), "run `python -m services.cli.readme`"


def test_a_missing_mark_is_an_error_and_not_a_silent_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document = tmp_path / "README.md"
    document.write_text("no marks here")
    monkeypatch.setattr(readme, "DOCUMENTS", {document: {"services": str}})
    with pytest.raises(ValueError, match="generated: services"):
        regenerated(document)


def test_the_readme_is_shorter_than_200_lines_and_names_no_path_of_a_machine() -> None:
    text = README.read_text(encoding="utf-8")
    assert text.count("\n") < 200
    assert not [word for word in ("/home/", "/root", "/tmp", "/work") if word in text]
