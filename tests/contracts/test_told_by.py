"""Every statement whose rows a question may be answered with names the access rule by which they are told.

A statement is found from the endpoints of routes that read (`reached`). That finds some too many, none of which is
told: they say so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from services.cli.addresses import SERVICES
from shared.auth.access import RULES
from shared.db.queries import Queries
from shared.runtime.service import Context
from tests.contracts.reached import comment_of, reached_from
from tests.contracts.test_rights import CHECKED_INSIDE, routes_of
from tests.contracts.test_statements import SQL_FILES, told

TOLD_BY = re.compile(r"^-- told by: (\w+)(; .+)?$", re.MULTILINE)
#: for statements by which something is decided, whose rows are told to nobody: the reason follows
NOBODY = "nobody"
CHANGES = re.compile(r"\b(INSERT INTO|DELETE FROM|UPDATE\s+\S+(\s+\w+)?\s+SET)\b")
NAMES = {rule.name for rule in RULES}


@cache
def rule_of(path: Path, name: str) -> str:
    """What stands behind `-- told by:` in the comment of a statement; nothing where it names no rule."""
    found = TOLD_BY.search(comment_of(path, name))
    return found.group(1) if found else ""


def _endpoints(service: str, context: Context) -> Iterator[Any]:
    """The functions that answer questions."""
    for route in routes_of(service, context):
        if "GET" in (route.methods or ()) or route.path in CHECKED_INSIDE:
            yield route.endpoint


def statements_read(service: str, context: Context) -> set[tuple[Path, str]]:
    """File and name of each statement that an answer may be made of."""
    reached = {one for endpoint in _endpoints(service, context) for one in reached_from(endpoint)[0]}
    return {(path, name) for path, name in reached if not CHANGES.search(Queries(path).text(name))}


@pytest.mark.parametrize("service", SERVICES)
async def test_every_statement_that_an_answer_is_made_of_names_its_rule(service: str, context: Context) -> None:
    silent = sorted(
        f"{told(path)}: {name}" for path, name in statements_read(service, context) if not rule_of(path, name)
    )
    assert silent == [], "say in the comment by which rule its rows are told: -- told by: DETAILS"


def test_rules_that_statements_name_exist() -> None:
    wrong = [
        f"{told(path)}: {name}"
        for path in SQL_FILES
        for name, _ in TOLD_BY.findall(path.read_text(encoding="utf-8"))
        if name not in NAMES | {NOBODY}
    ]
    assert wrong == []


async def test_the_statements_of_details_are_found(context: Context) -> None:
    found = {name for service in SERVICES for _, name in statements_read(service, context)}
    assert {"task_details", "list_jobs", "describe_jobs", "stdout", "task_of_file", "decisions_of_task"} <= found
