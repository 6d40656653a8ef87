"""The published graphs: reachable, with an end, and one owner for each arrow that a table needs."""

from __future__ import annotations

import pytest

from shared.states import DATASET, FILE, GRAPHS, JOB, TASK, Graph, IllegalTransition, Owner
from shared.states.job import LIVE, ON_NODE, QUEUED
from shared.states.task import ACTIVE, HOLDABLE

IDS = [graph.entity for graph in GRAPHS]


@pytest.mark.parametrize("graph", GRAPHS, ids=IDS)
def test_every_state_has_a_meaning_and_can_be_reached(graph: Graph) -> None:
    reached = set(graph.initial())
    while True:
        further = {target for source, target in graph.edges() if source in reached} - reached
        if not further:
            break
        reached |= further
    derived = {"partial"} if graph is FILE else set()
    assert reached == set(graph.meanings) - derived


@pytest.mark.parametrize("graph", GRAPHS, ids=IDS)
def test_from_every_state_a_final_one_can_be_reached(graph: Graph) -> None:
    ends = set(graph.final)
    while True:
        further = {source for source, target in graph.edges() if target in ends} - ends
        if not further:
            break
        ends |= further
    derived = {"partial"} if graph is FILE else set()
    assert ends >= set(graph.meanings) - derived


@pytest.mark.parametrize("graph", GRAPHS, ids=IDS)
def test_no_arrow_stands_twice_for_one_owner_and_trigger(graph: Graph) -> None:
    seen = [(t.source, t.target, t.trigger, t.owner) for t in graph.transitions]
    assert sorted(map(str, seen)) == sorted(map(str, set(seen)))
    assert all(t.source != t.target for t in graph.transitions)


def test_final_states_of_jobs_never_change() -> None:
    assert not [edge for edge in JOB.edges() if edge[0] in JOB.final]
    assert set(LIVE) | JOB.final == set(JOB.meanings)
    assert set(QUEUED).isdisjoint(ON_NODE)


def test_broken_is_forever_and_other_final_tasks_are_reopened_by_commands_only() -> None:
    assert not [edge for edge in TASK.edges() if edge[0] == "broken"]
    out = {edge[1] for edge in TASK.edges() if edge[0] in TASK.final}
    assert out == {"toretry", "toincexec"}


def test_only_task_definition_reopens_tasks_datasets_and_files() -> None:
    for graph in (TASK, DATASET, FILE):
        for t in graph.transitions:
            if t.source in graph.final and t.target not in graph.final:
                assert t.owner is Owner.TASK_DEFINITION, t


@pytest.mark.parametrize("state", ACTIVE)
def test_every_active_task_can_be_killed_and_finished(state: str) -> None:
    assert state in TASK.sources("aborting", Owner.TASK_DEFINITION)
    assert state in TASK.sources("finishing", Owner.TASK_DEFINITION)


@pytest.mark.parametrize("state", HOLDABLE)
def test_what_can_become_pending_can_be_released(state: str) -> None:
    assert (state, "pending") in TASK.edges() and ("pending", state) in TASK.edges()


def test_an_illegal_transition_is_refused_by_name() -> None:
    with pytest.raises(IllegalTransition, match="watchdog may not move a job from 'merging' to 'closed'"):
        JOB.check("merging", "closed", Owner.WATCHDOG)
    with pytest.raises(IllegalTransition, match="task_brokerage may never move a job to 'running'"):
        JOB.sources("running", Owner.TASK_BROKERAGE)
