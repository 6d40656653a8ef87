"""The rule of a route, and those of the statements and events that it reaches, agree; a difference is declared.

A statement says by which rule its rows are told (`-- told by:`) or for whom it changes something (`-- done for:`), an
event of which rule a route asks before it is emitted (`Entry.asked`). A caller whom a route lets through must be let
through by the statement's rule too: looked up with callers of every role and VO, not by names.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from services.cli.addresses import SERVICES
from shared.auth import ROLES, Caller
from shared.auth.access import RULES, AccessRule, Whose
from shared.db.queries import Queries
from shared.events import ENTRIES
from shared.runtime.service import Context
from tests.contracts.reached import comment_of, reached_from
from tests.contracts.test_statements import SQL_FILES, told
from tests.contracts.test_told_by import CHANGES, NOBODY, rule_of
from tests.routes import asked_for, routes_of

DONE_FOR = re.compile(r"^-- done for: (\w+(?:, \w+)*)$", re.MULTILINE)
BY_NAME = {rule.name: rule for rule in RULES}
#: POST because the client sends ids in the body
ONLY_READ = ("/api/v1/job/get_description", "/api/v1/job/get_description_incl_archive")
#: rule of the route, and the statement with a stricter one: why it may call it
STRICTER = {
    ("STATES", "job_states"): "owner and command go to its readers alone",
    ("STATES", "decisions_about_queue"): "others get the counts of a queue without the tasks",
    ("STATES", "waiting_of_queue"): "of tasks that the caller may not read the number alone",
    ("STATES", "reasons_at_queue"): "asked for operators alone",
    ("DETAILS", "reasons_at_queue"): "asked for operators alone",
    ("STATES", "use_over_time"): "a user's name is told by DETAILS of that user; others see shares",
    ("STATES", "timeout_rules"): "those that a VO added to its members, the others to everybody",
    ("STATES", "parameters"): "those of a VO to its members, those of none to everybody",
    ("DETAILS", "event_ranges_of_task"): "asked for operators alone",
    ("DETAILS", "job_types_of_task"): "asked for operators alone",
    ("DETAILS", "retry_actions_of_task"): "asked for operators alone",
    ("MEMBERS", "refused_writes"): "of the VOs whose scopes the caller may write: `WRITERS` chooses them",
}
#: reached by the name of a function alone, which other modules have too
BY_NAME_ALONE = {
    "note_pilots": {"COMMANDS", "NAMED", "OPERATORS", "OWN"},
    "note_pilots_without_a_job": {"COMMANDS", "NAMED", "OPERATORS", "OWN"},
    "note_heard": {"COMMANDS", "NAMED", "OPERATORS", "OWN"},
    "start_jobs": {"COMMANDS", "NAMED", "OPERATORS", "OWN"},
    "end_jobs": {"NAMED"},
}


def _callers() -> Iterator[Caller]:
    for name, role, group in itertools.product(("ada", "bob"), ROLES, ("atlas", "cms", "")):
        groups = frozenset({group}) if group else frozenset()
        yield Caller(name, frozenset({role}), groups, group or None)


EVERYBODY = [*_callers()]
EVERYTHING = [Whose(owner, vo) for owner in ("ada", "") for vo in ("atlas", "")]


def implies(asked: AccessRule, wanted: AccessRule) -> bool:
    """Whether `wanted` lets everybody through whom `asked` lets through."""
    return all(
        wanted.allows(caller, whose)
        for caller, whose in itertools.product(EVERYBODY, EVERYTHING)
        if asked.allows(caller, whose)
    )


def stricter(asked: str, statement: str, by: str) -> bool:
    """Whether a route's rule is too wide for a statement, and nobody said why."""
    return by not in ("", NOBODY) and (asked, statement) not in STRICTER and not implies(BY_NAME[asked], BY_NAME[by])


def unnamed(statement: str, named: set[str], reached: set[str]) -> set[str]:
    """Rules of routes that reach a changing statement, which it does not name."""
    return reached - named - BY_NAME_ALONE.get(statement, set())


@cache
def rules_in(path: Path, statement: str) -> set[str]:
    found = DONE_FOR.search(comment_of(path, statement))
    return set(found.group(1).split(", ")) if found else set()


def _asked(context: Context) -> Iterator[tuple[Any, str, bool]]:
    """Routes that ask who calls, their rule, and whether they only read."""
    for service in SERVICES:
        for route in routes_of(service, context):
            if (asks := asked_for(route)) is not None:
                yield route, asks.rule.name, "POST" not in (route.methods or ()) or route.path in ONLY_READ


@cache
def _changes(path: Path, statement: str) -> bool:
    return CHANGES.search(Queries(path).text(statement)) is not None


@pytest.fixture
def done(context: Context) -> dict[tuple[Path, str], set[str]]:
    """Rules of the changing routes that reach a changing statement."""
    found = defaultdict(set)
    for route, rule, only_reads in _asked(context):
        for path, statement in reached_from(route.endpoint)[0] if not only_reads else ():
            if _changes(path, statement):
                found[path, statement].add(rule)
    return found


async def test_rows_are_told_to_nobody_whom_the_statement_refuses(context: Context) -> None:
    wrong = {
        f"{route.path} asks {rule}, {told(path)}: {statement} is told by {rule_of(path, statement)}"
        for route, rule, only_reads in _asked(context)
        for path, statement in (reached_from(route.endpoint)[0] if only_reads else ())
        if not _changes(path, statement) and stricter(rule, statement, rule_of(path, statement))
    }
    assert sorted(wrong) == [], "ask a stricter rule, or say in STRICTER why the statement may be called"


async def test_every_statement_by_which_a_route_changes_something_names_the_rules_asked(
    done: dict[tuple[Path, str], set[str]],
) -> None:
    wrong = {
        f"{told(path)}: {statement} is reached after {', '.join(sorted(missing))}"
        for (path, statement), rules in done.items()
        if (missing := unnamed(statement, rules_in(path, statement), rules))
    }
    assert sorted(wrong) == [], "say in its comment: -- done for: COMMANDS"


async def test_statements_name_no_rule_that_no_route_asks_before_them(
    done: dict[tuple[Path, str], set[str]],
) -> None:
    stale = [
        f"{told(path)}: {statement} names {rule}"
        for path in SQL_FILES
        for statement in Queries(path).names()
        for rule in rules_in(path, statement) - done.get((path, statement), set())
    ]
    assert stale == []


async def test_events_that_routes_emit_name_the_rules_asked(context: Context) -> None:
    reached = defaultdict(set)
    for route, rule, only_reads in _asked(context):
        for event in reached_from(route.endpoint)[1] if not only_reads else ():
            reached[event].add(rule)
    assert {entry.event.__name__: set(entry.asked) for entry in ENTRIES if entry.asked} == dict(reached)


async def test_declared_differences_exist(context: Context) -> None:
    found = {
        (rule, statement)
        for route, rule, only_reads in _asked(context)
        for _, statement in (reached_from(route.endpoint)[0] if only_reads else ())
    }
    assert set(STRICTER) <= found


def test_a_route_or_statement_that_asks_too_little_is_found() -> None:
    assert stricter("STATES", "task_details", "DETAILS") and stricter("MEMBERS", "task_details", "OWN")
    assert not stricter("DETAILS", "counts", "STATES") and not stricter("OWN", "x", "DETAILS")
    assert unnamed("move_task", set(), {"COMMANDS"}) == {"COMMANDS"}
    assert unnamed("move_task", {"OPERATORS"}, {"COMMANDS", "OPERATORS"}) == {"COMMANDS"}
