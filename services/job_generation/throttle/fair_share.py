"""Decides how much of the gate's number a share gets while others want to run (JEDI: Fairshare)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: a share that runs far too much still makes so much of the number, so that chunks do not become tiny
LEAST_FACTOR = 0.1


@dataclass(frozen=True)
class ShareUse:
    """A share with its value among those of the same parent and VO, and its own running and queued jobs."""

    gshare: str
    value: float
    parent: str | None = None
    vo: str | None = None
    running: int = 0
    queued: int = 0


def fair_factor(gshare: str, shares: Sequence[ShareUse]) -> float:
    """What the number of jobs of a share is multiplied by: min(1, max(0.1, wanted / used)).

    wanted = the product, from the share up to the top, of value / sum of the values of active shares with the same
    parent; used = running jobs of the share / running jobs of all shares of its VO. Active is a share with running or
    queued jobs in it or below it, and the one that is asked about: what an inactive one does not want the others may
    have. 1 where nothing runs, or the share is not known.

    Example: shares A 60 and B 40; 90 jobs of A run and 10 of B. A wants 0.6 and uses 0.9, so its factor is 0.67: 166
    of 250 jobs. B wants 0.4 and uses 0.1: 250 of 250. Without work for B A wants 1 and gets 250.
    Sources: JEDI, Fairshare and Shares; the formula is the choice taken here.
    """
    by_name = {one.gshare: one for one in shares}
    own = by_name.get(gshare)
    if own is None:
        return 1.0
    all_running = sum(one.running for one in shares if one.vo == own.vo)
    if own.running == 0:
        return 1.0
    active = {one.gshare for one in shares if one.running or one.queued} | {gshare}
    active = {name for one in active for name in _line(one, by_name)}
    wanted = 1.0
    for name in _line(gshare, by_name):
        level = by_name[name]
        beside = [one for one in shares if (one.parent, one.vo) == (level.parent, level.vo) and one.gshare in active]
        total = sum(one.value for one in beside)
        wanted *= level.value / total if total else 1.0
    return min(1.0, max(LEAST_FACTOR, wanted * all_running / own.running))


def _line(gshare: str, by_name: dict[str, ShareUse]) -> list[str]:
    """A share and those above it."""
    line: list[str] = []
    at: str | None = gshare
    while at is not None and at in by_name and at not in line:
        line.append(at)
        at = by_name[at].parent
    return line
