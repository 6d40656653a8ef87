"""One question has one answer, in one place: who else could say it, would say it differently one day."""

from __future__ import annotations

import re
from pathlib import Path

from shared.events import JobMove

ROOT = Path(__file__).parents[2]
ANALYSIS = "shared/model/analysis.py"
#: the form of a task names the values of its fields
NAMES_OF_VALUES = {ANALYSIS, "services/task_definition/policy/task_spec_fields.py"}


def files(*endings: str) -> dict[str, str]:
    """The product's files by path, without the migrations: those are history."""
    found = (path for folder in ("services", "shared") for path in sorted((ROOT / folder).rglob("*")))
    return {
        str(path.relative_to(ROOT)): path.read_text()
        for path in found
        if path.suffix in endings and "migrations" not in path.parts
    }


def lines_with(pattern: str, *endings: str, without: set[str]) -> list[str]:
    return [
        f"{name}:{number}: {line.strip()}"
        for name, text in files(*endings).items()
        if name not in without
        for number, line in enumerate(text.splitlines(), start=1)
        if re.search(pattern, line)
    ]


def test_one_place_says_which_work_is_analysis() -> None:
    assert lines_with(r"""["']anal["']""", ".py", ".sql", without=NAMES_OF_VALUES) == []
    both = r"""[({\[](["']user["'],\s*["']panda["']|["']panda["'],\s*["']user["'])[)}\]]"""
    assert lines_with(both, ".py", ".sql", without={ANALYSIS}) == []


#: reads the grid for everybody; writes it and lists it to operators; looks for what cannot be in the tables
READERS_OF_THE_GRID = (
    "shared/snapshot/reader.sql",
    "services/job_brokerage/store/grids.sql",
    "services/watchdog/store/invariants/",
)


def test_one_reader_knows_queues_sites_and_storages() -> None:
    read = r"(?i)\b(from|join|using|update|into)\s+(public\.)?(queues|sites|storages)\b(?!\s+import\b)"
    found = [
        line
        for line in lines_with(read, ".sql", ".py", without=set())
        if not line.startswith(READERS_OF_THE_GRID) and "``" not in line
    ]
    assert found == []


def test_records_of_the_grid_become_values_where_it_is_loaded_and_where_it_is_read() -> None:
    parse = r"\b(queue|site|storage)_from_cric\("
    allowed = {f"shared/model/{name}.py" for name in ("queue", "site", "storage")}
    assert lines_with(parse, ".py", without=allowed) == []


MOVES = "shared/events/jobs.py"


def test_one_function_counts_the_moves_of_jobs() -> None:
    assert lines_with(r"\bJobMove\((?!BaseModel)|\bdef moves_of\b", ".py", without={MOVES}) == []


def test_the_statement_that_counts_moves_itself_counts_them_alike() -> None:
    """A claim is one statement, its event included: what it groups by are the fields of a move."""
    counting = [name for name, text in files(".sql").items() if re.search(r"AS to_status\b", text)]
    assert counting == ["services/job_dispatch/store/claims.sql"]
    found = re.search(r"moves AS \(\s*SELECT (.*?) FROM \w+ GROUP BY (.*?)\n", files(".sql")[counting[0]], re.DOTALL)
    assert found is not None
    selected = [re.sub(r".*\bAS\s+", "", one.strip()) for one in found[1].split(",")]
    assert selected == list(JobMove.model_fields)
    assert found[2].rstrip("), ").split(", ") == [
        one for one in selected if not one.endswith(("_status", "_jobs", "_cores"))
    ]


def test_one_function_cuts_sequences_into_batches() -> None:
    assert (
        lines_with(r"\brange\(0, len\(|\bwhile \w+ := list\(islice\(", ".py", without={"shared/model/batches.py"}) == []
    )
