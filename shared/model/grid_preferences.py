"""The special permissions of users: letters of their GRIDPREF (JEDI: Special permission)."""

from __future__ import annotations

from collections.abc import Mapping

from shared.model.priorities import ANALYSIS_PRIORITY, SUPER_PRIORITY

#: letter -> what its user may do; what is said to have no effect is kept for clients that read it
MEANINGS: Mapping[str, str] = {
    "k": "may download key pairs",
    "p": "may retrieve proxies",
    "s": f"super user: own and group analysis tasks have priority {SUPER_PRIORITY} and go before others",
    "g": f"super group: group analysis tasks have priority {SUPER_PRIORITY} and go before others",
    "t": "access tokens: no effect here, because whoever has a token key gets tokens",
    "a": "administrator: no effect here, because roles decide who may do what",
}


#: letters that are kept for clients that read them, and do nothing
WITHOUT_EFFECT = frozenset("ta")


def letters_without_effect(grid_pref: str) -> str:
    """A sentence about the letters that do nothing; empty where there is none."""
    return "; ".join(f"the letter {one} is kept for {MEANINGS[one]}" for one in sorted(WITHOUT_EFFECT & set(grid_pref)))


def unknown_letters(grid_pref: str) -> list[str]:
    """Characters that are none of the letters, in order."""
    return sorted(set(grid_pref) - MEANINGS.keys())


def is_super(grid_pref: str, *, has_group: bool) -> bool:
    """Whether an analysis task jumps over others: its user has s, or has g and it is of a group."""
    return "s" in grid_pref or ("g" in grid_pref and has_group)


def most_priority(grid_pref: str, *, has_group: bool) -> int:
    """The highest priority that an owner without the role production may give."""
    return SUPER_PRIORITY if is_super(grid_pref, has_group=has_group) else ANALYSIS_PRIORITY
