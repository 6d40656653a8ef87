"""A correction with whom it is of and which instance found it."""

from __future__ import annotations

from dataclasses import dataclass

from shared.order.configuration import Instance
from shared.order.wms_history import Correction

#: share, user
UserOfShare = tuple[str, str]


#: VO, group, user ("": the group itself)
UserOfGroup = tuple[str, str, str]


@dataclass(frozen=True)
class FoundCorrection:
    """Of a share or of a group of users, or of a user in one.

    `user_name` is "" for the share or group itself; the name of the other kind is "".
    """

    vo: str
    corrector: str
    instance: Instance
    gshare: str
    user_name: str
    correction: Correction
    user_group: str = ""

    @property
    def user_of_group(self) -> UserOfGroup:
        """Whom the correction of a group is of."""
        return self.vo, self.user_group, self.user_name
