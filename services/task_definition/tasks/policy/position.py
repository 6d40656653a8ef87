"""How many jobs are served before a waiting one at its queue, as far as that can be said; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shared.order.ranking import rank_shares
from shared.order.tree import Node


@dataclass(frozen=True)
class ShareBeside:
    """A share: what it uses everywhere, and its jobs that wait everywhere and at the queue in question."""

    node: Node
    used_cores: float
    n_queued: int
    n_here: int


@dataclass(frozen=True)
class Position:
    """Jobs before a job at its queue.

    `in_lane`: of its share with its requirements and a better key; `in_share`: of its share with a better key, whatever
    they require; `before`: waiting jobs of each share that is ranked before its own now; `behind`: those of all others.
    `drawn_from`: the jobs that wait there, where its task queue is drawn by weight; None where priorities decide.
    """

    gshare: str
    in_lane: int
    in_share: int
    before: Mapping[str, int]
    behind: int
    drawn_from: int | None = None

    @property
    def at_least(self) -> int:
        """Whoever can take the job can take these, and takes them first."""
        return self.in_lane if self.drawn_from is None else 0

    @property
    def at_most(self) -> int:
        """If every pilot can take all of them, and shares keep their places; a draw may take any other first."""
        return self.in_share + sum(self.before.values()) if self.drawn_from is None else self.drawn_from

    def lines(self) -> list[str]:
        """The range, what is counted, and what is not."""
        n_before = sum(self.before.values())
        range_of_it = (
            f"position: {self.at_least} to {self.at_most} of the jobs that wait at this queue are served before it"
        )
        if self.drawn_from is not None:
            return [range_of_it, "  its task queue is drawn by weight: any job that waits there may be drawn before it"]
        found = [
            range_of_it,
            f"  at least those before it in its lane ({self.in_lane}: same share, same requirements); at most all of "
            f"its share with a better priority ({self.in_share}) and all of shares ranked before it ({n_before})",
            f"  not counted: jobs that come, picks by age, pilots that ask for one user or task, and {self.behind} "
            "jobs of shares ranked behind, which go before it when these have less than they are due",
        ]
        if self.before:
            shares = ", ".join(f"{name} ({n_jobs})" for name, n_jobs in self.before.items())
            found.append(f"waits for its share (class share): ranked before {self.gshare} now: {shares}")
        return found


def position_of(
    gshare: str, in_lane: int, in_share: int, shares: Sequence[ShareBeside], *, is_drawn: bool = False
) -> Position:
    """The position by the order of shares as the numbers of the statistics give it.

    Example: A and B are due half each; A uses 100 cores, B none, so B is first. A job of A with 2 better ones of its
    lane among 5 of its share, and 10 jobs of B at its queue, has 2 to 15 jobs before it.

    `is_drawn`: its task queue is drawn by weight, so that anything from none to all others may go before it.
    """
    ranks = rank_shares(
        [one.node for one in shares],
        {one.node.name: one.used_cores for one in shares},
        {one.node.name: one.n_queued for one in shares},
    )
    here = {one.node.name: one.n_here for one in shares if one.n_here > 0 and one.node.name != gshare}
    own = ranks.key(gshare)
    before = {name: here[name] for name in sorted(here, key=ranks.key) if ranks.key(name) < own}
    drawn_from = max(sum(one.n_here for one in shares) - 1, 0) if is_drawn else None
    return Position(gshare, in_lane, in_share, before, sum(here.values()) - sum(before.values()), drawn_from)
