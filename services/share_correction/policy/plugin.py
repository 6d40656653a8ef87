"""The interface of a share corrector.

Entry points of `orrery.share_corrector` are named `any.<corrector>`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from shared.order.configuration import Instance
from shared.order.tree import Node
from shared.order.wms_history import Correction, Usage

GROUP = "orrery.share_corrector"


class ShareCorrector(Protocol):
    """Pure: values in, factors out; shares or users left out of the answer keep what they have."""

    name: str

    def correct_shares(
        self, nodes: Sequence[Node], usage_by_slice: Sequence[Usage], instance: Instance
    ) -> Mapping[str, Correction]:
        """A factor for each share of the tree from what each used in each time slice."""
        ...

    def correct_users(
        self, users: Sequence[str], usage_by_slice: Sequence[Usage], instance: Instance
    ) -> Mapping[str, Correction]:
        """A factor for each user of one share, all of whom are due the same."""
        ...
