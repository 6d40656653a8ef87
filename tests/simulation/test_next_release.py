"""This release beside the next one, whose tables have more columns and whose events have more fields.

That the next release reads what this one writes is for its own tests: this one is what there is.
"""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from tests import servers
from tests.simulation.prepared import ensure_world
from tests.simulation.running import authority, note_death
from tests.simulation.simulation import Happening, Report, Simulation
from tests.simulation.stage import Stage
from tests.simulation.workload import KIND_SEEDS, of_seed

pytestmark = [pytest.mark.simulation, pytest.mark.timeout(300)]

_TABLES = """
SELECT c.oid::regclass::text AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND n.nspname IN ('public', 'catalogue') ORDER BY 1
"""
#: what the next release adds to each event: this one has to leave it alone
_MORE_FIELDS = """
CREATE FUNCTION of_next_release() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.body := (NEW.body::jsonb || '{"of_next_release": {"n": [1, null]}}')::text;
    RETURN NEW;
END $$;
CREATE TRIGGER of_next_release BEFORE INSERT ON outbox FOR EACH ROW EXECUTE FUNCTION of_next_release();
"""


async def upgrade(url: str) -> int:
    """What a migration does before the first copy of the next release starts; how many tables have a new column."""
    connection = await asyncpg.connect(url)
    try:
        tables = [row["name"] for row in await connection.fetch(_TABLES)]
        for table in tables:
            await connection.execute(f"ALTER TABLE {table} ADD COLUMN of_next_release text DEFAULT 'x' NOT NULL")
        await connection.execute(_MORE_FIELDS)
        return len(tables)
    finally:
        await connection.close()


class Upgraded(Simulation):
    """A simulation whose database becomes that of the next release after so many steps."""

    after_steps = 0

    async def _step(self, happen: Happening) -> None:
        if self.report.steps == self.after_steps:
            assert await upgrade(self._stage.url) > 100
        await super()._step(happen)


@pytest.mark.parametrize(
    ("seed", "after_steps"), [(3, 0), (3, 200), (KIND_SEEDS + 3, 300)], ids=["before", "meanwhile", "other kinds"]
)
def test_every_task_ends_although_tables_get_new_columns_and_events_new_fields(seed: int, after_steps: int) -> None:
    """Sessions have prepared their statements when the tables change under them."""

    async def go() -> Report:
        asyncio.get_running_loop().set_exception_handler(note_death)
        url = servers.Servers.find().database_url
        stage = await Stage.set_up(url, await ensure_world(url, authority()))
        try:
            run = Upgraded(seed, stage, authority())
            run.after_steps = after_steps
            return await run.run()
        finally:
            await stage.drop(url)

    report = asyncio.run(go())
    assert len(report.statuses) == len(of_seed(seed).tasks) and report.steps > after_steps
