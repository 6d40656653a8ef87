"""mypy finds a misspelt state where it is compared and in a tuple that is declared with the type.

Membership (`status in ("failed", "done")`) is not checked: mypy takes the words of such a tuple, set or list for any
strings.
"""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
from mypy import api

from shared.states import GRAPHS, dataset, event_range, file, job, task

ROOT = Path(__file__).parents[2]
TYPES = {
    "task": ("TaskStatus", task.TaskStatus),
    "dataset": ("DatasetStatus", dataset.DatasetStatus),
    "file": ("FileStatus", file.FileStatus),
    "event_range": ("EventRangeStatus", event_range.EventRangeStatus),
    "job": ("JobStatus", job.JobStatus),
}
LINES = (
    'def f{number}(status: {type}) -> bool: return status == "{word}"',
    'def f{number}(status: {type}) -> bool: return "{word}" != status',
    'T{number}: tuple[{type}, ...] = ("running", "{word}")',
)
PLACES = [(entity, text) for entity in TYPES for text in LINES]


def source(word: str) -> str:
    """A module with each line for each type, from line 3 on."""
    states = ", ".join(f"{entity} as of_{entity}" for entity in TYPES)
    lines = [
        text.format(number=number, type=f"of_{entity}.{TYPES[entity][0]}", word=word)
        for number, (entity, text) in enumerate(PLACES)
    ]
    return "\n".join(["", f"from shared.states import {states}", *lines, ""])


def checked(path: Path, text: str) -> str:
    path.write_text(text)
    options = ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(path.parent / "cache")]
    out, problems, _ = api.run([*options, str(path)])
    assert not problems
    return out


@pytest.fixture(scope="module")
def misspelt(tmp_path_factory: pytest.TempPathFactory) -> str:
    return checked(tmp_path_factory.mktemp("misspelt") / "compared.py", source("faild"))


@pytest.mark.parametrize(("entity", "text"), PLACES)
def test_a_misspelt_state_is_found(misspelt: str, entity: str, text: str) -> None:
    line = 3 + PLACES.index((entity, text))
    assert f"compared.py:{line}: error" in misspelt, misspelt


def test_states_that_are_spelt_well_are_accepted(tmp_path: Path) -> None:
    assert checked(tmp_path / "compared.py", source("failed")).startswith("Success")


def test_each_type_has_the_states_of_its_graph() -> None:
    typed = {entity: get_args(literal) for entity, (_, literal) in TYPES.items()}
    assert {graph.entity: tuple(graph.meanings) for graph in GRAPHS} == typed
