"""Rules about which work goes where: the nucleus and its queues, zero share, full chains."""

from __future__ import annotations

import numpy as np

from shared.brokerage.check import YES_NO, Check, Tier, Verdict, decides
from shared.brokerage.request import HIGH_PRIORITY, JobRequest
from shared.brokerage.world import World
from shared.brokerage.zero_share import Policy, Work, work_of


def _at_nucleus(code: int, name: str) -> Check:
    return Check(code, name, Tier.POLICY, False, "queue of the nucleus", "must be", words=YES_NO)


NUCLEUS_ONLY = _at_nucleus(400, "nucleus_only")
T1_WEIGHT = _at_nucleus(401, "t1_weight")
FULL_CHAIN = _at_nucleus(402, "full_chain")
# In a decision the words go on with the sub-policies that turned the work away.
ZERO_SHARE = Check(403, "zero_share", Tier.POLICY, False, "turned away by sub-policy", "must be", words=("none",))

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

    Any value of fullChain counts, capable too: the document speaks of "a task with the fullChain parameter".
    """
    site = world.grid.sites.get(request.nucleus or "")
    if not request.full_chain or site is None or not site.bare_nucleus:
        return None
    return _only_the_nucleus(world, site.name)


@decides(ZERO_SHARE)
def zero_share(world: World, request: JobRequest) -> Verdict | None:
    """The queue's fairsharepolicy must not exclude the work; merge jobs' priorities are not looked at.

    Of the document's two readings of `priority>500:0` the condition as it is written is taken: above 500 is refused.
    """
    work = work_of(
        request.processing_type,
        request.working_group,
        request.gshare,
        request.priority,
        ignore_priority=request.is_merge,
    )
    texts = [_turned_away_by(policy, work) for policy in world.columns.zero_share]
    words = ZERO_SHARE.words + tuple(sorted({text for text in texts if text}))
    if len(words) == 1:
        return None
    place = {text: number for number, text in enumerate(words)}
    found = np.array([place.get(text, 0) for text in texts], np.int64)[world.columns.zero_share_index]
    return Verdict(found == 0, found, 0.0, words)


def _turned_away_by(policy: Policy, work: Work) -> str:
    """The sub-policy that turns the work away, as it was written; empty if the work is taken."""
    place = policy.turns_away(work)
    return policy.text_of(place) if place else ""
