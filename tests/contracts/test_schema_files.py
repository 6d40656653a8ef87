"""The files of the schema are read by people: each table is made once, each table and column is told."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.db.migrate import DIRECTORY, SUBJECTS

FILES = sorted(DIRECTORY.glob("*.sql"))
#: what CREATE TABLE cannot say
ALTERED = {
    "ALTER SEQUENCE share_positions OWNED BY shares.position;",
    "ALTER TABLE jobs_archive ENABLE ALWAYS TRIGGER jobs_archive_noted;",
    "ALTER TABLE sandbox_parts ALTER COLUMN content SET STORAGE EXTERNAL;",
    "ALTER TABLE tasks ENABLE ALWAYS TRIGGER tasks_have_names;",
}
_TABLE = re.compile(r"^CREATE (?:UNLOGGED )?TABLE ([\w.]+) \(\n(.*?)^\)", re.MULTILINE | re.DOTALL)
_COLUMN = re.compile(r"^    ([a-z]\w*) [a-z]")


def tables(text: str) -> Iterator[tuple[str, str, str]]:
    """Name, the line above it and what is between the brackets."""
    for found in _TABLE.finditer(text):
        yield found[1], text[: found.start()].rstrip("\n").rpartition("\n")[2], found[2]


def untold(definition: str) -> list[str]:
    """Columns without a comment beside them or on the line above."""
    lines, silent = definition.splitlines(), []
    for number, line in enumerate(lines):
        if (column := _COLUMN.match(line)) is None:
            continue
        rest = "\n".join(lines[number:])
        own = rest[: end.start()] if (end := re.search(r"\n    (?=[a-zA-Z-]|$)|\n\n", rest)) else rest
        if "-- " not in own and not lines[number - 1].strip().startswith("-- "):
            silent.append(column[1])
    return silent


def test_each_subject_has_a_file_and_each_file_is_installed() -> None:
    assert sorted(SUBJECTS) == [path.stem for path in FILES] and len(set(SUBJECTS)) == len(SUBJECTS)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_file_says_what_it_is_about_and_each_table_and_column_what_it_is(path: Path) -> None:
    text = path.read_text()
    assert text.startswith("-- ")
    wrong = [f"{name}: the table" for name, above, _ in tables(text) if not above.startswith("--")]
    wrong += [f"{name}.{column}" for name, _, inside in tables(text) for column in untold(inside)]
    assert wrong == []


def test_a_table_is_made_once_and_whole() -> None:
    text = re.sub(r" *--[^\n]*", "", "\n".join(path.read_text() for path in FILES))
    assert set(re.findall(r"^ALTER (?:TABLE|SEQUENCE|TYPE)[^;]*;", text, re.MULTILINE)) == ALTERED
    assert re.findall(r"^(?:DROP|UPDATE|DELETE)\b.*|CREATE OR REPLACE.*", text, re.MULTILINE) == []


def test_a_column_without_a_comment_is_found() -> None:
    assert untold("    a int,\n    b text CHECK (b IN\n        ('x')),   -- what\n    c int -- why\n") == ["a"]
