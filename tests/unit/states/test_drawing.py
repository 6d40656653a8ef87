"""Graphs as people read them: every arrow is in the table, the usual way in the diagram."""

from __future__ import annotations

import pytest

from services.cli.state_drawings import drawn, verb_table, verbs
from shared.states import GRAPHS
from shared.states.graph import Graph, Owner, Transition, arrows

IDS = [graph.entity for graph in GRAPHS]
MANY = ("a", "b", "c", "d", "e", "f", "g")
LIFE = Graph(
    "life",
    {state: state for state in (*MANY, "end")},
    frozenset({"end"}),
    (
        Transition(None, "a", "made", Owner.TASK_DEFINITION),
        *arrows(["a"], ["b"], "moved; by hand", Owner.TASK_DEFINITION),
        *arrows(["a"], ["b"], "moved by itself", Owner.WATCHDOG),
        *arrows(MANY, ["end"], "kill", Owner.TASK_DEFINITION),
    ),
)


def test_a_diagram_labels_each_arrow_with_its_verbs_and_leaves_verbs_of_many_arrows_to_the_table() -> None:
    assert drawn(LIFE).splitlines() == [
        "stateDiagram-v2",
        "    c",
        "    d",
        "    e",
        "    f",
        "    g",
        "    end",
        "    [*] --> a: made",
        "    a --> b: moved, by hand / moved by itself",
        "    end --> [*]",
    ]


def test_a_table_has_one_line_for_each_verb_of_each_owner() -> None:
    assert verb_table(LIFE).splitlines()[2:] == [
        "| made | (new) | a | task_definition |",
        "| moved; by hand | a | b | task_definition |",
        "| moved by itself | a | b | watchdog |",
        "| kill | a, b, c, d, e, f, g | end | task_definition |",
    ]


@pytest.mark.parametrize("graph", GRAPHS, ids=IDS)
def test_every_arrow_belongs_to_one_verb(graph: Graph) -> None:
    told = [(*arrow, verb.trigger, verb.owner) for verb in verbs(graph) for arrow in verb.arrows()]
    assert sorted(told, key=str) == sorted(
        ((one.source, one.target, one.trigger, str(one.owner)) for one in graph.transitions), key=str
    )


@pytest.mark.parametrize("graph", GRAPHS, ids=IDS)
def test_a_diagram_names_every_state_and_draws_no_arrow_twice(graph: Graph) -> None:
    lines = drawn(graph).splitlines()
    assert len(lines) == len({line.split(":")[0] for line in lines})
    assert set(graph.meanings) <= {word.strip(":") for line in lines for word in line.split()}
