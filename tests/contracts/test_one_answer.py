"""One question has one answer, in one place: who else could say it, would say it differently one day."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from shared.events import JobMove
from shared.model import dataset_types as types

ROOT = Path(__file__).parents[2]
SCHEMA = ROOT / "shared/db/schema"
ANALYSIS = "shared/model/analysis.py"
#: the form of a task names the values of its fields
NAMES_OF_VALUES = {ANALYSIS, "services/task_definition/tasks/policy/task_parameters/identity.py"}


def files(*endings: str) -> dict[str, str]:
    """The product's files by path, without the schema: it defines what others ask."""
    found = (path for folder in ("services", "shared") for path in sorted((ROOT / folder).rglob("*")))
    return {
        str(path.relative_to(ROOT)): path.read_text()
        for path in found
        if path.suffix in endings and SCHEMA not in path.parents
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


TYPES = "shared/model/dataset_types.py"
INPUTS, UNMERGED = frozenset(types.INPUT_TYPES), frozenset(types.UNMERGED_TYPES)
CATALOGUED = INPUTS - set(types.WITHOUT_DATA)
#: what statements may ask for: the lists of Python, inputs that have files, and what jobs read of both kinds
ASKED_TYPES = {
    *map(frozenset, (INPUTS, types.FINAL_OUTPUT_TYPES, UNMERGED, types.OUTPUT_TYPES, types.LOG_TYPES)),
    CATALOGUED,
    frozenset((*types.OUTPUT_TYPES, *types.TEMPLATE_TYPES)),
    INPUTS | UNMERGED,
    CATALOGUED | UNMERGED | {"lib"},
}


def test_one_place_says_which_types_of_datasets_belong_together() -> None:
    known = INPUTS | set(types.OUTPUT_TYPES)
    found = []
    for name, text in files(".py").items():
        for node in ast.walk(ast.parse(text)) if name != TYPES else ():
            if isinstance(node, ast.Tuple | ast.List | ast.Set) and len(node.elts) > 1:
                words = {one.value for one in node.elts if isinstance(one, ast.Constant)}
                if len(words) == len(node.elts) and words <= known:
                    found.append(f"{name}:{node.lineno}: {sorted(words)}")
    assert found == []


def test_statements_ask_for_the_types_that_belong_together() -> None:
    lists = [
        (name, frozenset(re.findall(r"'(\w+)'", one)))
        for name, text in files(".sql").items()
        for one in re.findall(r"\btype IN \((.*?)\)", text, re.DOTALL)
    ]
    assert len(lists) > 20
    assert [one for one in lists if one[1] not in ASKED_TYPES] == []


def test_one_place_says_how_large_ids_and_seeds_are() -> None:
    large = r"\b2\s*\*\*\s*(31|6[234])\b|\b1\s*<<\s*(31|6[234])\b|\b(2147483647|9223372036854775807)\b|getrandbits\(\d"
    allowed = {"shared/model/whole_numbers.py", "services/cli/simulated_pilots/payload.py"}  # a pilot makes GUIDs
    assert lines_with(large, ".py", ".sql", without=allowed) == []


def test_one_place_says_yes_and_no() -> None:
    assert lines_with(r"""\(["']no["'], *["']yes["']\)""", ".py", without={"shared/brokerage/check.py"}) == []


def test_one_place_keeps_the_parameters_of_a_service_fresh() -> None:
    refreshing = r"\bparameters\.refresh\("
    assert lines_with(refreshing, ".py", without={"shared/runtime/service.py"}) == []
    roots = {name: text for name, text in files(".py").items() if re.fullmatch(r"services/\w+/app\.py", name)}
    assert [name for name, text in roots.items() if ("Parameters()" in text) != ("with_parameters(" in text)] == []
