"""One owner per column and per transition: the SQL of every service, parsed, against `tests/contracts/ownership.py`."""

from __future__ import annotations

from collections import defaultdict
from functools import cache

import pytest
from sqlglot import exp

from shared.db import Database
from shared.states import GRAPHS
from shared.states.graph import Owner
from tests.contracts.ownership import GRAPH_OF_TABLE, TABLES
from tests.contracts.sql_writes import SERVICES, Statement, Write, parsed, statements, writes

_GRAPHS = {graph.entity: graph for graph in GRAPHS}
#: the schema `catalogue` belongs to task_definition
_CATALOGUE = "catalogue."


@cache
def every_write() -> tuple[Write, ...]:
    """What is written by the statements of all services; read when the first test asks."""
    return tuple(writes())


def test_every_statement_of_every_service_can_be_read() -> None:
    found = list(statements())
    assert {statement.service for statement in found} == set(SERVICES)
    assert all(isinstance(parsed(statement), exp.Expression) for statement in found)


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_writes_only_what_it_owns(service: str) -> None:
    wrong = [problem(write) for write in every_write() if write.service == service]
    assert [text for text in wrong if text] == []


def problem(write: Write) -> str | None:
    """What is wrong with a write, as a sentence."""
    owner = Owner(write.service)
    if write.table.startswith(_CATALOGUE):
        return None if owner is Owner.TASK_DEFINITION else f"{write.where}: {write.table} is task_definition's"
    table = TABLES.get(write.table)
    if table is None:
        return f"{write.where}: table {write.table} has no owner in tests/contracts/ownership.py"
    by_kind = {"insert": table.inserts, "delete": table.deletes, "update": table.owners(write.column)}
    allowed = by_kind[write.kind]
    if owner not in allowed:
        names = ", ".join(sorted(allowed)) or "nobody"
        return f"{write.where}: {write.kind} of {write.table}.{write.column} belongs to {names}"
    return None


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_makes_only_its_own_transitions(service: str) -> None:
    wrong = []
    for write in every_write():
        if write.service != service or write.column != "status" or write.table not in GRAPH_OF_TABLE:
            continue
        graph = _GRAPHS[GRAPH_OF_TABLE[write.table]]
        if write.value is not None and not any(
            t.target == write.value and t.owner == Owner(service) for t in graph.transitions
        ):
            wrong.append(f"{write.where}: {service} never moves a {graph.entity} to {write.value!r}")
    assert wrong == []


def test_a_service_that_changes_a_status_owns_a_transition_of_that_graph() -> None:
    for write in every_write():
        if write.column == "status" and write.table in GRAPH_OF_TABLE:
            graph = _GRAPHS[GRAPH_OF_TABLE[write.table]]
            assert Owner(write.service) in {t.owner for t in graph.transitions}, write.where


def test_whoever_changes_the_state_of_a_job_says_when_time_out_rules_are_asked_about_it() -> None:
    written = defaultdict(set)
    for write in every_write():
        if write.table == "jobs" and write.kind == "update":
            written[write.where].add(write.column)
    assert [where for where, columns in written.items() if "status" in columns and "deadline_at" not in columns] == []


def test_a_write_of_somebody_elses_column_is_found() -> None:
    stolen = Write("task_brokerage", "x.sql: steal", "update", "jobs", "status")
    assert problem(stolen) == "x.sql: steal: update of jobs.status belongs to job_dispatch, job_generation, watchdog"
    assert problem(Write("watchdog", "x", "insert", "tasks")) is not None
    assert problem(Write("watchdog", "x", "update", "nonsense", "a")) is not None


def test_writes_inside_common_table_expressions_and_conflict_clauses_are_seen() -> None:
    from tests.contracts import sql_writes

    text = (
        "WITH a AS (UPDATE jobs SET status = 'sent' WHERE job_id = :id RETURNING job_id)"
        " INSERT INTO job_claims (job_id) SELECT job_id FROM a ON CONFLICT (job_id) DO UPDATE SET claimed_at = :now"
    )
    tree = sql_writes.parsed(Statement("job_dispatch", "x", text))
    kinds = [type(node) for node in tree.walk() if isinstance(node, exp.Update | exp.Insert)]
    assert sorted(kind.__name__ for kind in kinds) == ["Insert", "Update"]


async def test_every_table_and_column_has_an_owner(database: Database) -> None:
    async with database.read() as connection:
        rows = await connection.fetch(
            "SELECT c.table_name, c.column_name FROM information_schema.columns c JOIN information_schema.tables t"
            " USING (table_schema, table_name) WHERE table_schema = 'public' AND table_type = 'BASE TABLE'"
            " AND table_name !~ '_(default|[0-9]{2}|[0-9]{8})$'"
        )
    columns = defaultdict(set)
    for row in rows:
        columns[row["table_name"]].add(row["column_name"])
    unowned = {"installed_schema", "allowed_transitions"}  # written by `orrery migrate` only
    assert set(columns) - unowned == set(TABLES)
    for name, table in TABLES.items():
        assert set(table.columns) <= columns[name], f"{name}: ownership names columns that it does not have"
