"""How the owner of secrets is told what others tried: in the audit log, under the owner's name."""

from __future__ import annotations

#: somebody submitted a task that would use the secrets of somebody else
ASKED = "secrets.asked"
#: somebody else changed a task that uses them: it gets them no more
WITHHELD = "secrets.withheld"


def secrets_of(owner: str) -> str:
    """The target of such a line."""
    return f"secrets:{owner}"
