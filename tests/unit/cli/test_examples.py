"""The example tasks are real tasks: the check that submission makes accepts them, in full and made smaller."""

import json

import pytest

from services.cli.commands.catalogue import read_catalogue
from services.cli.demo.examples import catalogue_files, folder, read_examples
from services.cli.demo.profiles import PROFILES
from services.task_definition.importing.import_file import parse_catalogue
from services.task_definition.policy.task_spec import parse_task
from shared.model.grid import parse_grid, read_grid_folder

FILES = sorted((folder() / "tasks").glob("*.json"))


def test_there_are_the_four_kinds_of_task():
    specs = [parse_task(json.loads(path.read_text())) for path in FILES]
    simulation, generation, derivation, analysis = specs
    assert simulation.split_rule()["nEventsPerInputFile"] > simulation.split_rule()["nEventsPerJob"]
    assert generation.no_input
    assert derivation.split_rule()["mergeOutput"]
    assert analysis.is_analysis


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_the_tasks_of_every_profile_are_valid_and_their_names_are_the_runs_own(profile):
    examples = read_examples(profile, "run1")
    assert len(examples) == 4
    for example in examples:
        spec = parse_task(dict(example.parameters))
        outputs = [one for one in spec.parameters.job_parameters if one.param_type == "output"]
        assert "run1" in spec.parameters.task_name
        assert all("run1" in (one.dataset or "") for one in [*outputs, *spec.parameters.logs()])


def test_the_example_catalogue_is_valid_on_the_example_grid_and_has_what_the_tasks_read():
    grid = parse_grid(read_grid_folder(folder() / "grid"))
    names = set()
    for path in catalogue_files():
        parsed = parse_catalogue(read_catalogue(path), storages=grid.storages.keys(), known_datasets=())
        names |= {one.name for one in (*parsed.datasets, *parsed.containers)}
    for path in FILES:
        for item in parse_task(json.loads(path.read_text())).inputs:
            assert set(item.datasets()) <= names
