"""What users of the simulation ask of their tasks: every command of the table, with what it takes."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tests.simulation.workload import NEW_SEEDS, has_other_kinds

#: what ends a task with less than all of its input
ENDING = ("kill", "finish")
#: seeds above this one have users who give every command of the table, and input that changes in every way; of those
#: with other kinds of task every other one
PLAIN_SEEDS = 200

#: the commands of the other seeds, by the last part of their paths; several times what is to be frequent
PLAIN = (
    "pause", "resume", "resume", "retry", "retry", "increase_attempts", "kill", "finish", "reassign", "avalanche",
    "reload_input", "reactivate",
)  # fmt: skip

Body = Callable[[random.Random, int], dict[str, Any]]
_NUCLEI = ("BNL-ATLAS", "CERN-PROD")
_OUTPUTS = ("HITS", "EVNT", "DAOD", "hist", "GROWN", "CHILD")


def _nothing(rng: random.Random, task_id: int) -> dict[str, Any]:
    return {}


def _retry(rng: random.Random, task_id: int) -> dict[str, Any]:
    flags = ("no_child_retry", "discard_events", "keep_gshare_priority", "ignore_hard_exhausted")
    changes: dict[str, Any] = {"new_parameters": {"nFilesPerJob": rng.choice((1, 2))}}
    return rng.choice([{}, {rng.choice(flags): True}, changes])


def _input_again(rng: random.Random, task_id: int) -> dict[str, Any]:
    return rng.choice([{}, {"new_parameters": {"ramCount": rng.choice((1000, 1800))}}])


def _reassign(rng: random.Random, task_id: int) -> dict[str, Any]:
    place = rng.choice([{}, {"nucleus": rng.choice(_NUCLEI)}])
    return {**place, "mode": rng.choice(("soft", "nokill", "hard"))}


def _rule(rng: random.Random, task_id: int) -> dict[str, Any]:
    return {"attribute_name": "nFilesPerJob", "attribute_value": rng.choice((1, 2))}


def _lost_output(rng: random.Random, task_id: int) -> dict[str, Any]:
    """An output by its name, whether or not the task has made it."""
    name = f"{rng.choice(_OUTPUTS)}.{task_id}._{rng.randint(1, 4):06d}.root"
    return rng.choice([{"files": [name]}, {"files": [name], "dry_run": True}, {}])


#: how often each is given, and with what
EVERY: dict[str, tuple[int, Body]] = {
    "pause": (2, _nothing),
    "resume": (3, _nothing),
    "retry": (5, _retry),
    "reactivate": (2, lambda rng, _: {"keep_attempt_nr": rng.random() < 0.5}),
    "reload_input": (3, _input_again),
    "increase_attempts": (2, lambda rng, _: {"increase": rng.randint(1, 5)}),
    "kill": (1, _nothing),
    "finish": (4, lambda rng, _: {"soft": rng.random() < 0.5}),
    "reassign": (3, _reassign),
    "avalanche": (1, _nothing),
    "release": (2, _nothing),
    "change_priority": (2, lambda rng, _: {"priority": rng.choice((100, 900))}),
    "change_share": (2, lambda rng, _: {"share": rng.choice(("MC", "Data", "Express", "User Analysis"))}),
    "change_split_rule": (2, _rule),
    "recover_lost_files": (2, _lost_output),
}


def gives_every(seed: int) -> bool:
    """Whether the users of a seed give every command, and its input changes in every way."""
    if seed >= NEW_SEEDS and seed % 3 == 2:
        return False
    return seed > PLAIN_SEEDS and (not has_other_kinds(seed) or seed % 2 == 0)


def any_plain(rng: random.Random, task_id: int) -> tuple[str, dict[str, Any]]:
    """One of the commands that take nothing."""
    return rng.choice(PLAIN), {}


def any_command(rng: random.Random, task_id: int) -> tuple[str, dict[str, Any]]:
    """One command of the table and what it is given."""
    [path] = rng.choices(list(EVERY), [weight for weight, _ in EVERY.values()])
    return path, EVERY[path][1](rng, task_id)
