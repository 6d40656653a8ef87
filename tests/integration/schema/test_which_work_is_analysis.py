from __future__ import annotations

from itertools import product

from shared.db import Database
from shared.model.analysis import is_analysis

TYPES = (None, "", "anal", "prod")
LABELS = (None, "", "user", "panda", "managed", "test", "prod_test")


async def test_statements_and_services_say_the_same(database: Database) -> None:
    cases = list(product(TYPES, LABELS))
    async with database.read() as connection:
        rows = await connection.fetch(
            "SELECT orrery_is_analysis(task_type, label) FROM unnest($1::text[], $2::text[])"
            " WITH ORDINALITY AS one (task_type, label, place) ORDER BY place",
            [task_type for task_type, _ in cases],
            [label for _, label in cases],
        )
    assert [row[0] for row in rows] == [is_analysis(*case) for case in cases]
