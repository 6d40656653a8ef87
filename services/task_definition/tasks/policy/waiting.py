"""What a task without a place waits for, in one line; pure: a stored decision in, text out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from shared.brokerage.check import compared
from shared.brokerage.explained import Stored, number_of, queue_of
from shared.brokerage.lifts import Lift

Facts = Mapping[str, Any]
SHOWN_QUEUES = 3
#: checks of room, and what they count: jobs of the task's VO alone
ROOM = {
    "queued": "queued of its VO",
    "activated_and_starting": "activated and starting of its VO",
    "long_queue": "queued of its VO",
    "transferring": "transferring of its VO",
    "vp_overloaded": "queued of its VO",
    "user_queue": "of the user queued",
    "analysis_stabilizer": "of the user queued",
}
#: what job sets without a queue wait for
REAL_CO_JUMBO = "waits for real co-jumbo jobs"
#: what lifts a limit of people
OF_PEOPLE = frozenset({Lift.USER.value, Lift.SHARE.value})
#: said with the queue or the limit itself, or as the time
_SAID_OTHERWISE = {Lift.QUEUE.value, Lift.TIME.value, Lift.NOTHING.value, Lift.PARAMETER.value}


def telling(stored: Stored, miss: Facts | None) -> dict[str, Any]:
    """The entries of a decision that its words are made of, and how many queues its words count.

    Of each check the first by name, the nearest misses at queues and each limit of people; the nearest miss of all.
    """
    names, of_queue = stored.names, stored.held(lambda one: Lift.QUEUE.value in one["lifts"])
    is_room = np.isin(stored.codes, [code for code, one in stored.checks.items() if one["name"] in ROOM])
    keys = (np.asarray(names)[of_queue], stored.beyond()[of_queue], ~is_room[of_queue])
    nearest: dict[str, int] = {}
    for place in of_queue[np.lexsort(keys)].tolist():
        nearest.setdefault(queue_of(names[place]), place)
        if len(nearest) == SHOWN_QUEUES:
            break
    first = [min(places, key=names.__getitem__) for places in stored.held_by().values()]
    limits = stored.distinct(stored.held(lambda one: not OF_PEOPLE.isdisjoint(one["lifts"])).tolist())
    of_all = [names.index(miss["name"])] if miss and miss["name"] in names else []
    told = {*nearest.values(), *first, *limits, *of_all}
    return {
        "queues": stored.entries(sorted(told, key=names.__getitem__)),
        "n_of_queue": stored.n_queues(of_queue.tolist()),
        "n_may_pass": stored.n_queues(stored.held(lambda one: one["temporary"]).tolist()),
    }


def waits_for(decision: Facts) -> str:
    """What a decision waits for; empty if it found a place.

    `n_of_queue`: how many queues there are that can be lifted, where not all are among its entries.
    Example: "room at BNL (100 queued of its VO, at most 40), the grid or 19:50 UTC".
    """
    if decision["outcome"] != "none":
        return ""
    held = [one for one in decision["queues"] if one.get("check")]
    # The nearest of each queue's entries.
    nearest: dict[str, Facts] = {}
    for one in sorted((one for one in held if Lift.QUEUE.value in one.get("lifts", ())), key=_nearness):
        nearest.setdefault(queue_of(one["name"]), one)
    texts = [_at_queue(one) for one in list(nearest.values())[:SHOWN_QUEUES]]
    more = decision.get("n_of_queue", len(nearest)) - len(texts)
    if more:
        texts.append("another queue" if more == 1 else f"one of {more} more queues")
    limits = {_limit(one): None for one in held if not OF_PEOPLE.isdisjoint(one.get("lifts", ()))}
    texts += list(limits)
    others = {lift: None for one in held for lift in one.get("lifts", ())}
    said = _SAID_OTHERWISE | OF_PEOPLE
    texts += [lift for lift in others if lift not in said]
    if decision["retry_at"]:
        texts.append(f"{str(decision['retry_at'])[11:16]} UTC")
    return joined(texts)


def part_line(part: Facts) -> str:
    """What a part of a task waits for.

    Example: "merges at BNL since 19:20: room at BNL (21 queued of its VO, at most 20) or 19:50 UTC".
    """
    work, name = part["work"], part["part"]
    dataset, _, ram_mb = name.partition(" ")
    of_memory = f" of {ram_mb} MB" if ram_mb else ""
    what = {
        "merge": f"merges{of_memory} at {dataset}", "input": f"input{of_memory} of dataset {dataset}",
        "job sets": "job sets without a queue", "preprocess": "its pre-processing job",
    }.get(work, "its next input" if part["waits_for"] == "share" else "the task")  # fmt: skip
    until = f"{str(part['retry_at'])[11:16]} UTC"
    told = waits_for(part) if part["queues"] else ""
    if not told:
        of_share = ["room in its share"] if part["waits_for"] == "share" else []
        lifts = [Lift[one].value for one in part["lifts"] if one in Lift.__members__]
        told = joined([*of_share, *(lift for lift in lifts if lift not in _SAID_OTHERWISE), until])
    woken = f"; woken by {part['woken_by']}, to be decided" if part["woken_by"] else ""
    return f"{what} since {str(part['since'])[11:16]}: {told}{woken}"


def joined(texts: Sequence[str]) -> str:
    """ "a, b or c"."""
    return " or ".join(part for part in (", ".join(texts[:-1]), *texts[-1:]) if part)


def queues_among(entries: Iterable[Facts]) -> int:
    """How many queues these are: a queue has an entry for each resource type, QUEUE/TYPE."""
    return len({queue_of(one["name"]) for one in entries})


def _nearness(one: Facts) -> tuple[int, float, str]:
    """Room first, where the fewest are too many."""
    found, wanted = number_of(one["found"]), number_of(one["wanted"])
    beyond = found - wanted if found is not None and wanted is not None else 0.0
    return one["check"] not in ROOM, beyond, one["name"]


def _at_queue(one: Facts) -> str:
    found, wanted = number_of(one["found"]), number_of(one["wanted"])
    if one["check"] in ROOM and found is not None and wanted is not None:
        return f"room at {one['name']} ({found:g} {ROOM[one['check']]}, at most {wanted:g})"
    if one["check"] == "pilots":
        return f"a pilot at {one['name']}"
    return f"{one['name']} ({one['check']}: {compared(one['found'], one['wanted'])})"


def _limit(one: Facts) -> str:
    return f"fewer {one['found']} ({one['wanted']})"
