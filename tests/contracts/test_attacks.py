"""A route that nobody attacks is one of which nobody knows who may call it."""

from __future__ import annotations

from pathlib import Path

from tests.attack.attacks import all_attacks
from tests.attack.calls import CALLS, NOT_CALLED
from tests.attack.routes import all_routes

ROOT = Path(__file__).parents[2]


async def test_every_route_is_attacked_or_has_a_reason_why_not() -> None:
    routes = {one.name: one for one in all_routes()}
    assert {name for name in routes if name not in CALLS and name not in NOT_CALLED} == set(), "tests/attack/calls.py"
    assert {name for name in (*CALLS, *NOT_CALLED) if name not in routes} == set(), "these are no routes"
    assert {name for name in CALLS if routes[name].asks is None} == set(), "these ask nobody who they are"
    assert all(NOT_CALLED.values())


def test_each_attack_says_in_one_line_of_its_own_what_it_tries() -> None:
    said = [one.says for one in all_attacks()]
    assert len(said) == len(set(said)) and all(said)


def test_the_attack_runs_in_ci_in_its_small_size() -> None:
    assert "make attack ARGS=--small\n" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
