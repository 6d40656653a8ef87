"""Copies of one job of which one counts (useJobCloning).

Public documents name the values runonce and storeonce, the sub-status jc_unlock of the loser and its state closed, and
code 200; what is decided here besides is the smallest that agrees with them:

- runonce: the first copy of which a pilot says that it starts has the input; storeonce: the first whose outputs are
  registered. The other copies end as closed, jc_unlock.
- A copy that ends badly leaves the input to the others; the end of the last one is that of the input's attempt.
- Copies are nEsConsumers at each of nSitesPerJob sites; where a task states neither, one at each of two sites.
- Copies write outputs of their own, and only those of the one that counts belong to the task.
"""

from __future__ import annotations

from typing import Literal

from shared.states.job import JobStatus

#: code of jobs whose copy was faster
CLONING_LOCK = 200


def after_copy(status: JobStatus, *, is_decided: bool, n_others: int) -> Literal["wins", "loses", "leaves", "ends"]:
    """What the end of a copy means.

    `is_decided`: another stored its output before; `n_others` have not ended.

    Example: a copy fails while another runs: it leaves; it fails as the last one: it ends the attempt.
    """
    if is_decided:
        return "loses"
    if status in ("finished", "merging"):
        return "wins"
    return "leaves" if n_others else "ends"
