import json

import pytest

from services.cli.demo.examples import renamed
from services.cli.demo.profiles import PROFILES, profile_named
from services.cli.demo.verdict import DemoResult, judge
from services.cli.failures import WrongUsage
from services.cli.progress import progress_of


def details(status="done", finished=10, failed=0, outputs=10):
    return {
        "task_id": 7,
        "task_name": "mc.something",
        "status": status,
        "datasets": [
            {
                "type": "input",
                "n_files": 10,
                "n_files_used": 10,
                "n_files_finished": finished,
                "n_files_failed": failed,
            },
            {"type": "input", "master_id": 1, "n_files": 99, "n_files_finished": 99},
            {"type": "output", "n_files": outputs, "n_files_finished": outputs},
            {"type": "tmpl_output", "n_files": 1},
        ],
        "jobs": {"finished": 10, "failed": 2},
    }


def test_a_task_that_is_done_with_all_its_files_and_outputs_is_as_it_should_be():
    verdict = judge(details(), progress_of(details()))
    assert verdict.problem == ""
    assert verdict.outputs == 10
    assert verdict.progress.files_total == 10, "secondary inputs are not counted"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"status": "finished", "finished": 9, "failed": 1}, "is finished, not done"),
        ({"finished": 9}, "9 of 10 files"),
        ({"outputs": 0}, "no registered output"),
    ],
)
def test_anything_less_is_a_problem_with_its_number(change, words):
    content = details(**change)
    verdict = DemoResult([judge(content, progress_of(content))])
    assert len(verdict.problems) == 1
    assert words in verdict.problems[0]
    assert json.loads(json.dumps(verdict.as_dict()))["success"] is False


def test_a_broken_invariant_alone_is_a_failure():
    verdict = DemoResult([judge(details(), progress_of(details()))], ["invariant I3 is broken"])
    assert verdict.problems == ["invariant I3 is broken"]


def test_a_run_gives_task_and_outputs_a_name_of_their_own():
    task = {
        "taskName": "mc.simul",
        "nFiles": 3,
        "log": {"dataset": "mc.simul.log"},
        "jobParameters": [{"value": "--out ${OUT}", "dataset": "mc.simul.HITS"}, {"dataset": "mc.evgen.EVNT"}],
    }
    again = renamed(task, "run5")
    assert again["taskName"] == "mc.simul.run5"
    assert again["log"]["dataset"] == "mc.simul.run5.log"
    assert [one["dataset"] for one in again["jobParameters"]] == ["mc.simul.run5.HITS", "mc.evgen.EVNT"]
    assert again["nFiles"] == 3


def test_an_unknown_profile_is_refused_with_those_there_are():
    assert profile_named("small") is PROFILES["small"]
    with pytest.raises(WrongUsage, match="full, small"):
        profile_named("huge")
