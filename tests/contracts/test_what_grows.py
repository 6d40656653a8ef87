"""The chapter about what grows says of each table when its rows are dropped, or that it does not grow."""

from __future__ import annotations

from pathlib import Path

from tests.contracts.ownership import TABLES

README = Path(__file__).parents[2] / "deploy" / "README.md"


def test_every_table_is_in_the_chapter_about_what_grows() -> None:
    chapter = README.read_text(encoding="utf-8").partition("## What grows")[2].partition("\n## ")[0]
    missing = sorted(name for name in TABLES if f"`{name}`" not in chapter and "." not in name)
    assert missing == []
