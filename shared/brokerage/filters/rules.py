"""Rules of a queue about which work it takes: zero share."""

from __future__ import annotations

import numpy as np

from shared.brokerage.check import Check, Tier, Verdict, decides
from shared.brokerage.request import JobRequest
from shared.brokerage.world import World
from shared.brokerage.zero_share import Policy, Work, work_of

# In a decision the words go on with the sub-policies that turned the work away.
ZERO_SHARE = Check(403, "zero_share", Tier.POLICY, False, "turned away by sub-policy", "must be", words=("none",))


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
