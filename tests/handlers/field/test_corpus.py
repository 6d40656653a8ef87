"""Tasks of the field's programs give the datasets, rules, texts and files that they give in the field."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from services.task_definition.app import build
from services.watchdog.checking.run import run_checks
from shared.auth import Authority
from shared.runtime.service import Context
from tests.databases import Databases
from tests.handlers.events import started
from tests.handlers.field.carrying import Carrier, UncheckedStory
from tests.handlers.field.comparing import differences
from tests.handlers.field.corpus import cases, put_world
from tests.handlers.job_generation.story import UNSENT
from tests.handlers.task_definition.conftest import client_of

#: of the field's task, 4242, no text of the corpus has this number
FIRST_TASK = 5_424_200
TABLE = Path(__file__).with_name("differences.md")
EVERY = "every"


def explained() -> dict[str, set[str]]:
    """What differs, by case, as the table says it; `every`: wherever it is seen."""
    told: dict[str, set[str]] = {}
    for line in TABLE.read_text().splitlines():
        cells = [one.strip() for one in line.strip().strip("|").split("|")]
        if not line.startswith("|") or len(cells) != 3 or cells[0] in ("case", "---"):
            continue
        assert cells[2], f"no reason in {line}"
        for case in cells[0].split(", "):
            told.setdefault(case, set()).update(cells[1].split(", "))
    return told


@pytest.fixture
async def carrier(context: Context, databases: Databases, authority: Authority) -> AsyncIterator[Carrier]:
    story = await UncheckedStory.begin(context, databases)
    await put_world(story.database)
    service = await started(build(replace(context, metrics=CollectorRegistry())))
    async with client_of(service, authority, "jdoe", "operator") as client:
        yield Carrier(story, service, client)


@pytest.mark.timeout(600)
async def test_every_task_gives_what_it_gives_in_the_field_or_the_table_explains_why_not(
    carrier: Carrier, databases: Databases, database_url: str
) -> None:
    table, found, texts = explained(), dict[str, set[str]](), list[str]()
    seen = set[str]()
    for place, case in enumerate(cases()):
        told = differences(case, await carrier.carry(case, FIRST_TASK + place))
        seen |= told.keys() & table[EVERY]
        own = told.keys() - table[EVERY]
        found |= {case.name: own} if own else {}
        unexplained = sorted(own - table.get(case.name, set()))
        texts += [f"{case.name}: {about}\n{told[about]}" for about in unexplained]
    assert not texts, "\n\n".join(["not in the table of differences:", *texts])
    listed = {case: about for case, about in table.items() if case != EVERY}
    assert listed == found, "rows of the table that no longer differ"
    assert seen == table[EVERY], "rows of the table that are seen nowhere"
    broken = [str(one) for one in await databases.ask(database_url, run_checks) if one.check not in UNSENT]
    assert broken == []
