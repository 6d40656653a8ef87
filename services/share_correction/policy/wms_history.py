"""The WMSHistory corrector as a plugin; its formulas are in `shared.order`.

Source: DIRAC, Dynamic share corrections.
"""

from __future__ import annotations

from collections.abc import Sequence

from shared.order.configuration import Instance
from shared.order.tree import Node
from shared.order.wms_history import Correction, Usage, correct, correct_siblings


class WmsHistory:
    """Sibling shares against each other at every level of the tree, and the users of one share."""

    name = "WMSHistory"

    def correct_shares(
        self, nodes: Sequence[Node], usage_by_slice: Sequence[Usage], instance: Instance
    ) -> dict[str, Correction]:
        """Corrections by share. `usage_by_slice` is by leaf share."""
        return correct_siblings(nodes, usage_by_slice, instance)

    def correct_users(
        self, users: Sequence[str], usage_by_slice: Sequence[Usage], instance: Instance
    ) -> dict[str, Correction]:
        """Corrections by user of one share, who are all due the same."""
        return correct(dict.fromkeys(users, 1.0), usage_by_slice, instance)
