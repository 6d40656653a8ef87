"""States are written as their graphs spell them, and what holds a state is declared with the type of its graph.

mypy finds a misspelt state where it is compared (`==`) with a Literal. It does not check membership
(`status in ("failed", "done")`), nor a comparison with a plain `str`: both are checked here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.states import GRAPHS

ROOT = Path(__file__).parents[2]
STATES = {state for graph in GRAPHS for state in graph.meanings}
NAMES_OF_STATES = frozenset({
    "status", "state", "job_status", "task_status", "new_status", "old_status", "next_status", "parent_status",
    "to_status", "from_status", "states", "statuses",
})  # fmt: skip

#: words that are compared with a name of a state and belong to no graph: (file, word) and what it is
OTHER_WORDS = {
    ("services/job_generation/store/tasks.py", "open"): "whether the catalogue's dataset still gets files",
    ("services/task_definition/tasks/staging/staging.py", "requested"): "a stage-in that has not begun",
    ("services/task_definition/tasks/policy/explaining.py", "requested"): "a stage-in that has not begun",
    ("services/task_definition/tasks/staging/staging.py", "active"): "a stage-in that has begun",
    ("services/task_definition/data/importing/files.py", "frozen"): "whether the catalogue's dataset still gets files",
}
#: a `str` under the name of a state, and why no graph has its type
PLAIN_TEXTS = {
    ("services/cli/simulated_pilots/fleet.py", "status"): "of a worker, in the words of the pilot's protocol",
    ("services/job_dispatch/api/job.py", "status"): "as a caller wrote it",
    ("services/job_dispatch/store/job_reads.py", "status"): "as a caller wrote it; an unknown one lists nothing",
    ("services/job_generation/store/tasks.py", "to_status"): "of a chunk, which has no graph",
    (
        "services/task_definition/data/importing/import_file.py",
        "state",
    ): "of a catalogue's dataset: open or closed",
    ("services/task_definition/tasks/policy/input_read.py", "state"): "of a catalogue's dataset: open or closed",
    (
        "services/task_definition/tasks/policy/definition_plan.py",
        "state",
    ): "of a catalogue's dataset: open or closed",
    ("services/task_definition/tasks/store/definitions.py", "state"): "of a catalogue's dataset: open or closed",
    ("shared/db/unit_of_work.py", "from_status"): "of any graph: `entity` says which",
    ("shared/db/unit_of_work.py", "to_status"): "of any graph: `entity` says which",
    ("shared/model/job_report.py", "state"): "as the pilot reported it; empty where it did not say",
    ("shared/timeouts/built_in.py", "state"): "of the name of a rule, which may say more than a state",
    ("shared/timeouts/rule.py", "status"): "of a queue: online, paused, offline",
    ("shared/model/site.py", "state"): "of a site in the grid's description",
}


def sources() -> Iterator[tuple[str, ast.Module]]:
    for folder in ("services", "shared"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text())


def name_of(node: ast.expr) -> str | None:
    """`status`, `job.status` and `row["status"]` are all called status."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Subscript(slice=ast.Constant(value=str(name))):
            return name
    return None


def words_in(node: ast.expr) -> list[str]:
    match node:
        case ast.Constant(value=str(word)):
            return [word]
        case ast.Tuple(elts=items) | ast.Set(elts=items) | ast.List(elts=items):
            return [word for item in items for word in words_in(item)]
    return []


def compared_words(tree: ast.AST) -> Iterator[str]:
    """Words that are compared (==, !=, in, not in) with something that is called like a state."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(name_of(side) in NAMES_OF_STATES for side in sides):
                yield from (word for side in sides for word in words_in(side))


def plain_texts(tree: ast.AST) -> Iterator[str]:
    """Parameters and fields that are called like a state and declared as `str`."""
    for node in ast.walk(tree):
        match node:
            case ast.arg(arg=name, annotation=ast.expr() as declared):
                pass
            case ast.AnnAssign(target=ast.Name(id=name), annotation=declared):
                pass
            case _:
                continue
        if name in NAMES_OF_STATES and ast.unparse(declared) in ("str", "str | None"):
            yield name


def test_words_that_are_compared_with_a_state_are_states() -> None:
    found = {(path, word) for path, tree in sources() for word in compared_words(tree) if word not in STATES}
    assert found == set(OTHER_WORDS)


def test_what_holds_a_state_is_declared_with_the_type_of_its_graph() -> None:
    found = {(path, name) for path, tree in sources() for name in plain_texts(tree)}
    assert found == set(PLAIN_TEXTS)


@pytest.mark.parametrize(
    "text",
    [
        'status in ("faild", "done")',
        'job.status not in {"failed", "faild"}',
        'row["state"] == "faild"',
        '"faild" != task.to_status',
    ],
)
def test_a_misspelt_state_is_found(text: str) -> None:
    assert [word for word in compared_words(ast.parse(text)) if word not in STATES] == ["faild"]


@pytest.mark.parametrize("text", ["def f(status: str): ...", "class A:\n    state: str | None = None"])
def test_a_plain_text_for_a_state_is_found(text: str) -> None:
    assert len(list(plain_texts(ast.parse(text)))) == 1
