"""A correction with whom it is of and which instance found it."""

from __future__ import annotations

from dataclasses import dataclass

from shared.order.configuration import Instance
from shared.order.wms_history import Correction

#: share, user
UserOfShare = tuple[str, str]


@dataclass(frozen=True)
class FoundCorrection:
    """Of a share, or of a user of it (`user_name` is "" for the share itself)."""

    vo: str
    corrector: str
    instance: Instance
    gshare: str
    user_name: str
    correction: Correction
