"""Regular expressions of people: what is taken, what is refused, and that none of them can stop a process."""

from __future__ import annotations

import time
from typing import Any

import pytest

from services.job_brokerage.policy.grid_checks import GRID_CHECKS
from services.task_definition.tasks.policy.shares import ShareNode, share_for
from services.task_definition.tasks.policy.task_spec import parse_task
from services.task_definition.tasks.policy.task_spec_problems import InvalidTask
from shared.brokerage.software import Lack, SoftwareNeeds, lack_of, resolve_platform
from shared.brokerage.zero_share import InvalidPolicy, parse_policy, work_of
from shared.model.architecture import parse_architecture
from shared.model.expression import InvalidExpression, parse_expression
from shared.model.grid import parse_grid
from shared.model.problems import InvalidGrid
from shared.model.software import QueueSoftware
from tests.handlers.grids import small_grid
from tests.handlers.task_definition.world import an_input, production
from tests.unit.brokerage.worlds import a_queue

LETTERS = "a" * 32
# What a backtracking engine needs 2^32 steps for, and more.
EXPLODING = ("(a+)+b", "([a-z0-9_-]+)+Z", "(a|a)*b", "(a*)*b", "(.*)*b")
UNKNOWN_TO_RE2 = ("(?=el)el9", "(?<=x)el9", "(el)9\\1", "(?!sw)el9", "(?P<a>el)(?P=a)")


class AtOnce:
    """A block that must end within a second of processor time."""

    def __enter__(self) -> None:
        self._started = time.process_time()

    def __exit__(self, *_: object) -> None:
        assert time.process_time() - self._started < 1.0


@pytest.mark.parametrize("text", EXPLODING)
def test_a_match_is_answered_at_once_whatever_the_expression(text) -> None:
    with AtOnce():
        assert not parse_expression(text).matches_all_of(LETTERS)
        assert not parse_expression(text).matches_start_of(LETTERS)


def test_the_whole_value_or_its_start_is_matched() -> None:
    expression = parse_expression("el[0-9]")
    assert expression.matches_all_of("el9") and not expression.matches_all_of("el9-gcc13")
    assert expression.matches_start_of("el9-gcc13") and not expression.matches_start_of("x86_64-el9")
    assert parse_expression("").matches_start_of("anything")


@pytest.mark.parametrize("text", [*UNKNOWN_TO_RE2, "(el9", "el**", "\udc00"])
def test_what_cannot_be_matched_in_linear_time_is_refused_and_what_is_allowed_is_said(text) -> None:
    with pytest.raises(InvalidExpression, match=r"is not a regular expression: .*; allowed: RE2 syntax"):
        parse_expression(text)


def test_a_repetition_that_the_engines_read_differently_is_refused() -> None:
    with pytest.raises(InvalidExpression, match=r"lower bound; allowed: \{0,N\}"):
        parse_expression("el{,9}")


def test_an_expression_that_becomes_a_huge_program_is_refused() -> None:
    with AtOnce(), pytest.raises(InvalidExpression, match="too large"):
        parse_expression("(.?){1000}Z")
    slowest = parse_expression("(.?){500}Z")
    with AtOnce():
        assert not any(slowest.matches_all_of(f"{LETTERS}{number}") for number in range(100))


@pytest.mark.parametrize("text", EXPLODING)
def test_platforms_and_models_of_tasks_cannot_stop_a_decision(text) -> None:
    published = QueueSoftware.model_validate({
        "cmtconfigs": [LETTERS], "containers": [], "cvmfs": ["atlas"],
        "tags": [{"cmtconfig": LETTERS, "project": "Athena", "release": "1.0"}],
        "architectures": [{"type": "cpu", "arch": [LETTERS]}, {"type": "gpu", "vendor": ["v"], "model": [LETTERS]}],
    })  # fmt: skip
    queue, software = a_queue("Q", releases=("AUTO",)), {"Q": published}
    with AtOnce():
        cpu = SoftwareNeeds(parse_architecture(f"#{text}"))
        assert lack_of(queue, software, cpu) is Lack.CPU
        gpu = SoftwareNeeds(parse_architecture(f"&v-{text}"))
        assert lack_of(queue, software, gpu) is Lack.GPU
        platform = SoftwareNeeds(parse_architecture(f"{text}#{LETTERS}"), "Athena", "1.0")
        assert lack_of(queue, software, platform) is Lack.RELEASE
        assert resolve_platform(published, platform) is None
        excluded = parse_architecture(
            f'{{"gpu_spec": {{"vendor": "v", "model": {{"pattern": "{text}", "excl": true}}}}}}'
        )
        assert lack_of(queue, software, SoftwareNeeds(excluded)) is Lack.NOTHING


@pytest.mark.parametrize("text", EXPLODING)
def test_policies_of_queues_cannot_stop_a_decision(text) -> None:
    with AtOnce():
        for key in ("group", "gshare"):
            assert parse_policy(f"{key}={text}:0").turns_away(work_of("simul", LETTERS, LETTERS, 100)) == 0


@pytest.mark.parametrize("text", EXPLODING)
def test_expressions_of_shares_cannot_stop_the_submission_of_tasks(text) -> None:
    spec = parse_task(production(workingGroup=LETTERS))
    with AtOnce():
        assert share_for(spec, "SCORE", (ShareNode("A", None, {"working_group": text}),)) is None


@pytest.mark.parametrize("text", UNKNOWN_TO_RE2)
def test_a_queue_with_an_impossible_expression_is_refused_with_field_value_and_what_is_allowed(text) -> None:
    files: dict[str, Any] = small_grid()
    files["queues"]["Q_ALPHA"]["fairsharepolicy"] = f"group={text}:0"
    with pytest.raises(InvalidGrid) as refused:
        parse_grid(files, checks=GRID_CHECKS)
    (problem,) = refused.value.problems
    assert (problem.key, problem.field) == ("Q_ALPHA", "fairsharepolicy")
    assert repr(text) in problem.reason and "group" in problem.reason and "allowed: RE2 syntax" in problem.reason
    with pytest.raises(InvalidPolicy):
        parse_policy(f"gshare={text}:0")


@pytest.mark.parametrize("text", UNKNOWN_TO_RE2)
def test_a_share_with_an_impossible_expression_is_refused(text) -> None:
    files: dict[str, Any] = small_grid()
    files["shares"] = [{"name": "A", "value": 100, "workinggroup": text}]
    with pytest.raises(InvalidGrid) as refused:
        parse_grid(files)
    (problem,) = refused.value.problems
    assert problem.field == "workinggroup" and "allowed: RE2 syntax" in problem.reason


@pytest.mark.parametrize("text", UNKNOWN_TO_RE2)
def test_a_task_with_an_impossible_expression_is_refused_with_field_and_what_is_allowed(text) -> None:
    platform, files = production(architecture=f"x86_64-{text}"), production()
    files["jobParameters"] = [an_input(include=text)]
    for task, field in ((platform, "architecture"), (files, "jobParameters.0.include")):
        with pytest.raises(InvalidTask) as refused:
            parse_task(task)
        (problem,) = refused.value.problems
        assert problem.field == field
        assert "allowed: RE2 syntax" in problem.allowed and repr(text)[1:-1] in problem.allowed
