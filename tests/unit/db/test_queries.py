"""How a file of statements is read: plain names, purposes, parameters by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shared.db.queries import Queries

TWO = """
-- What this file is about.

-- name: find_jobs
-- Jobs of a queue, the oldest first.
-- Index jobs_lane.
SELECT job_id FROM jobs WHERE queue = :queue AND (:status::text IS NULL OR status = :status) ORDER BY job_id;

-- name: forget_jobs
-- All of them.
DELETE FROM jobs;
"""


class Recorded:
    """A connection that keeps what it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    async def fetch(self, *asked: Any, timeout: float | None) -> list[Any]:
        self.asked.append((*asked, timeout))
        return []

    async def fetchrow(self, *asked: Any, timeout: float | None) -> None:
        self.asked.append((*asked, timeout))

    async def execute(self, *asked: Any, timeout: float | None) -> str:
        self.asked.append((*asked, timeout))
        return "DELETE 7"


def queries_of(folder: Path, text: str) -> Queries:
    (folder / "jobs.sql").write_text(text)
    return Queries.beside(str(folder / "jobs.py"))


def test_statements_are_those_of_the_file_of_the_modules_name(tmp_path: Path) -> None:
    queries = queries_of(tmp_path, TWO)
    assert queries.names() == ["find_jobs", "forget_jobs"]
    assert queries.purpose("find_jobs") == "Jobs of a queue, the oldest first. Index jobs_lane."
    assert queries.text("find_jobs") == (
        "SELECT job_id FROM jobs WHERE queue = $1 AND ($2::text IS NULL OR status = $2) ORDER BY job_id"
    )


async def test_arguments_go_by_name_and_a_change_says_how_many_rows_it_touched(tmp_path: Path) -> None:
    queries, connection = queries_of(tmp_path, TWO), Recorded()
    assert await queries.rows(connection, "find_jobs", status=None, queue="Q", timeout_s=5) == []
    assert await queries.run(connection, "forget_jobs") == 7
    assert [asked[1:] for asked in connection.asked] == [("Q", None, 5), (None,)]


async def test_a_missing_and_an_unknown_argument_are_named(tmp_path: Path) -> None:
    queries = queries_of(tmp_path, TWO)
    with pytest.raises(TypeError, match=r"jobs.sql find_jobs: missing \['status'\], unknown \['state'\]"):
        await queries.rows(Recorded(), "find_jobs", queue="Q", state="ready")
    with pytest.raises(TypeError, match=r"missing \['status'\], unknown \[\]"):
        await queries.rows(Recorded(), "find_jobs", queue="Q")


async def test_a_statement_that_must_have_a_row_says_when_it_has_none(tmp_path: Path) -> None:
    queries = queries_of(tmp_path, TWO)
    with pytest.raises(LookupError, match=r"jobs.sql find_jobs: no row"):
        await queries.one(Recorded(), "find_jobs", queue="Q", status=None)


@pytest.mark.parametrize("name", ["find_jobs^", "find_jobs$", "find_jobs!", "find_jobs(queue)", "find_jobs()"])
def test_only_plain_names_are_read(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match=r"jobs.sql: find_jobs: a name is plain"):
        queries_of(
            tmp_path,
            f"-- name: {name}\nSELECT 1 WHERE :queue = 1;" if "queue" in name else f"-- name: {name}\nSELECT 1;",
        )


def test_a_name_is_there_once(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"jobs.sql: find_jobs is there twice"):
        queries_of(tmp_path, "-- name: find_jobs\nSELECT 1;\n\n-- name: find_jobs\nSELECT 2;\n")
