"""Rules that keep work at its nucleus: urgent work and scouts, t1Weight, full chains."""

from __future__ import annotations

from shared.brokerage.check import YES_NO, Check, Tier, Verdict, decides
from shared.brokerage.request import HIGH_PRIORITY, JobRequest
from shared.brokerage.world import World


def _at_nucleus(code: int, name: str) -> Check:
    return Check(code, name, Tier.POLICY, False, "queue of the nucleus", "must be", words=YES_NO)


NUCLEUS_ONLY = _at_nucleus(400, "nucleus_only")
T1_WEIGHT = _at_nucleus(401, "t1_weight")
FULL_CHAIN = _at_nucleus(402, "full_chain")

ALL_AT_NUCLEUS = -1


def _only_the_nucleus(world: World, nucleus: str) -> Verdict:
    passes = world.columns.at_site(nucleus)
    return Verdict(passes, passes, 1.0)


@decides(NUCLEUS_ONLY)
def nucleus_for_urgent_work_and_scouts(world: World, request: JobRequest) -> Verdict | None:
    """Priority 800 and more, and scouts, stay with the nucleus.

    The document does not except merge jobs: taken is that they stay where their files are.
    """
    if not request.nucleus or request.is_merge or not (request.priority >= HIGH_PRIORITY or request.is_scout):
        return None
    return _only_the_nucleus(world, request.nucleus)


@decides(T1_WEIGHT)
def nucleus_for_t1_weight(world: World, request: JobRequest) -> Verdict | None:
    """t1Weight -1: all normal jobs go to the nucleus; normal is taken as neither scout nor merge job."""
    if not request.nucleus or request.t1_weight != ALL_AT_NUCLEUS or request.is_merge or request.is_scout:
        return None
    return _only_the_nucleus(world, request.nucleus)


@decides(FULL_CHAIN)
def nucleus_for_full_chain(world: World, request: JobRequest) -> Verdict | None:
    """A full-chain task at a bare nucleus stays there; at a normal nucleus it may use satellites.

    Any value of fullChain counts, capable too: the document says "a task with the fullChain parameter".
    """
    site = world.grid.sites.get(request.nucleus or "")
    if not request.full_chain or site is None or not site.bare_nucleus:
        return None
    return _only_the_nucleus(world, site.name)
