"""What of all rows a caller may read in full: the rule DETAILS as the parameters of a statement.

A list with filters and pages cannot ask the rule of each row: SQL's `orrery_may_read` is the same rule, and a test
holds them together.
"""

from __future__ import annotations

from typing import NamedTuple

from shared.auth.caller import Caller


class Reach(NamedTuple):
    """The last three parameters of `orrery_may_read`; None stands for every VO, "" for what is of no VO."""

    reader: str
    own_vos: list[str] | None
    produced_vos: list[str] | None

    @classmethod
    def of(cls, caller: Caller) -> Reach:
        """What DETAILS lets this caller through to.

        Example: groups atlas/production and cms: all of atlas, of cms what is their own.
        """
        if caller.may("operator"):
            return cls(caller.name, None, None)
        if caller.vos is None:
            return cls(caller.name, None, None if caller.may("production") else [])
        vos = sorted({*caller.vos, ""})
        return cls(caller.name, vos, [vo for vo in vos if caller.may_for(vo, "production")])

    @property
    def is_all(self) -> bool:
        """Whether there is no row that the caller may not read."""
        return self.produced_vos is None

    @property
    def owner(self) -> str | None:
        """Whose rows alone it is, for an index; None: it is those of others, too."""
        return self.reader if self.produced_vos == [] else None


#: who may read everything: a use case that acts for the installation
EVERYTHING = Reach("", None, None)
