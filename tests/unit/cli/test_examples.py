"""The example tasks are real tasks: the check that submission makes accepts them, in full and made smaller."""

import json

import pytest

import services.cli.demo
from services.cli.commands.catalogue import read_catalogue
from services.cli.demo.examples import catalogue_files, folder, read_examples
from services.cli.demo.profiles import PROFILES
from services.cli.simulated_pilots.payload import memory_kb_of, returned_by
from services.task_definition.data.importing.import_file import parse_catalogue
from services.task_definition.tasks.policy.task_spec import parse_task
from shared.model.grid import parse_grid, read_grid_folder

FILES = sorted((folder() / "tasks").glob("*.json"))


def test_there_are_the_kinds_of_task_that_the_demonstration_shows():
    specs = [parse_task(json.loads(path.read_text())) for path in FILES]
    simulation, generation, derivation, analysis, events, jumbo, build, memory, preprocessed = specs
    assert simulation.split_rule()["nEventsPerInputFile"] > simulation.split_rule()["nEventsPerJob"]
    assert generation.no_input
    assert derivation.split_rule()["mergeOutput"]
    assert analysis.is_analysis
    assert events.columns()["event_service"] == 1 and events.columns()["use_jumbo"] is None
    assert jumbo.columns()["use_jumbo"] == "W"
    assert build.split_rule()["useBuild"]
    [needed] = [item.value for item in memory.parameters.job_parameters if "simulatedMemoryMB" in (item.value or "")]
    assert memory_kb_of({"jobPars": needed}) > 1024 * memory.columns()["ram_count"]
    prepro = preprocessed.parameters.prepro_spec
    assert prepro is not None and returned_by({"jobPars": prepro.job_parameters}) == {"nEventsPerJob": 1000}


def test_what_is_said_of_the_demonstration_names_as_many_tasks_as_there_are(orrery):
    number = {8: "eight", 9: "nine", 10: "ten"}[len(FILES)]
    readme = (folder().parents[1] / "README.md").read_text()
    for text in (orrery("demo", "--help").out, services.cli.demo.__doc__, readme):
        assert f"{number} tasks" in text


def test_no_two_examples_write_the_same_dataset():
    written = [
        item.dataset
        for path in FILES
        for item in parse_task(json.loads(path.read_text())).parameters.job_parameters
        if item.param_type == "output"
    ]
    assert len(written) == len(set(written))


def test_the_example_grid_has_queues_for_event_service_and_fewer_than_are_ranked_with_the_one_for_jumbo_jobs():
    queues = parse_grid(read_grid_folder(folder() / "grid")).queues
    taking = {name for name, queue in queues.items() if queue.jobseed == "all"}
    assert [name for name in sorted(taking) if queues[name].runs_jumbo_jobs] == ["CSCS-LCG2-ALPS"]
    assert 2 < len(taking) < 10


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_the_tasks_of_every_profile_are_valid_and_their_names_are_the_runs_own(profile):
    examples = read_examples(profile, "run1")
    assert len(examples) == len(FILES)
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
