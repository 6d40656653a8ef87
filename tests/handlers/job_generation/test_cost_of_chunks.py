"""What a chunk reads does not depend on how much input its task has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from services.job_generation.policy import merging
from shared.db.queries import Queries
from tests.handlers.job_generation.story import Story, chunks_in, generated_in

CHUNK, ENDS = 20, ("finished", "failed", "finished")
MERGES = "SELECT job_id FROM jobs WHERE job_type = 'merge'"


async def largest_answer(story: Story, monkeypatch: pytest.MonkeyPatch, n_files: int, **values: Any) -> int:
    """The most rows that one statement gave while some chunks of a task were offered, made and ended."""
    seen: dict[str, int] = {}
    rows = Queries.rows

    async def counted(self: Queries, connection: Any, name: str, **parameters: Any) -> Sequence[Any]:
        found = await rows(self, connection, name, **parameters)
        seen[name] = max(seen.get(name, 0), len(found))
        return found

    task_id = await story.task(n_files=n_files, **values)
    with monkeypatch.context() as patch:
        patch.setattr(Queries, "rows", counted)
        chunks = await story.ready(task_id)
        for to in ENDS:
            said = [await story.broker(task_id, chunk_id) for chunk_id in chunks]
            jobs = [job_id for one in said for job_id in generated_in(one)]
            assert 0 < len(jobs) <= 2 * CHUNK
            chunks = [new for one in said for new in chunks_in(one)]
            merges = [one["job_id"] for one in await story.fetch(MERGES) if one["job_id"] in jobs]
            waits = "merging" if values.get("merge") and to == "finished" else to
            for some, end in ((merges, to), ([one for one in jobs if one not in merges], waits)):
                source = None if to == "finished" else "payload"
                chunks += chunks_in(await story.end(some, end, source=source)) if some else []
    return max(seen.values())


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"merge": True},
        {"merge": True, "rule": {"onSiteMerging": True}},
        {"seeds": True},
        {"secondary": {"n_files": 3, "repeat": True}},
    ],
)
async def test_no_statement_gives_more_rows_for_a_chunk_of_a_task_with_ten_times_the_input(
    story: Story, monkeypatch: pytest.MonkeyPatch, values: dict[str, Any]
) -> None:
    monkeypatch.setattr(merging, "MAX_FILES_MERGED_ON_SITE", CHUNK)
    for key in ("NFILES", "MAX_JOBS_PER_CHUNK"):
        await story.fetch(
            "INSERT INTO parameters (app, component, key, value, type) VALUES ('jedi', 'jobgen', $1, $2, 'int')",
            key,
            str(CHUNK),
        )
    await story.fetch("UPDATE versions SET version = version + 1 WHERE name = 'config'")
    for start in story.service.on_start:
        await start()
    few, many = [await largest_answer(story, monkeypatch, n_files, **values) for n_files in (100, 1000)]
    assert many == few
