"""Who may see and do what: one rule for each kind of answer and change.

Every route names the rule that it asks (`require`, `guarded`), every statement that an API reads names it in its
comment, and nothing else compares names, VOs and roles. A row that a caller may not see is told like one that does not
exist; what the rule STATES covers is told of every row. Of another's task a user is told its state and may do nothing:
its texts (DETAILS) and commands (COMMANDS) are for its owner, production of its VO, and operators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from shared.auth.caller import Caller


@dataclass(frozen=True)
class Whose:
    """To whom something belongs: a person, a VO, both or none (""); what has no owner is its VO's."""

    owner: str = ""
    vo: str = ""

    @classmethod
    def of(cls, owner: str | None, vo: str | None) -> Whose:
        """The same of columns that may be NULL."""
        return cls(owner or "", vo or "")


def may_name(caller: Caller, name: str) -> bool:
    """Whether production may do something in a person's name: one that its own source could give.

    Operators may in any.
    """
    return caller.may("operator") or name == caller.name or caller.names.has(name)


@dataclass(frozen=True)
class AccessRule:
    """Who may: `meaning` completes the sentence "told to / done for ..."."""

    name: str
    meaning: str
    _allows: Callable[[Caller, Whose], bool]

    def allows(self, caller: Caller, whose: Whose) -> bool:
        """Whether the rule lets a caller through to something that belongs to `whose`."""
        return self._allows(caller, whose)


def _is_owner(caller: Caller, whose: Whose) -> bool:
    return bool(whose.owner) and caller.name == whose.owner and caller.is_of(whose.vo)


def _is_produced_by(caller: Caller, whose: Whose) -> bool:
    return caller.may_for(whose.vo, "production")


#: facts of the installation that pilots and clients need before they have a token
PUBLIC = AccessRule("PUBLIC", "anybody, without a token", lambda caller, whose: True)
#: states, counts and shares of whatever there is; never a name, text, place or reason of somebody's work
STATES = AccessRule("STATES", "anybody with a token", lambda caller, whose: True)
#: parameters, files, texts, reasons and reports of tasks and jobs
DETAILS = AccessRule(
    "DETAILS",
    "the owner, production of its VO, and operators",
    lambda caller, whose: _is_owner(caller, whose) or _is_produced_by(caller, whose),
)
#: commands on tasks and jobs; some need production (`task_definition.tasks.policy.commands`)
COMMANDS = AccessRule(
    "COMMANDS",
    "the owner with the role user, production of its VO, and operators",
    lambda caller, whose: (
        (_is_owner(caller, whose) and caller.may_for(whose.vo, "user")) or _is_produced_by(caller, whose)
    ),
)
#: what is made in the caller's own name and VO: tasks, series, sandboxes
SUBMITTING = AccessRule("SUBMITTING", "whoever acts for the VO", lambda caller, whose: caller.is_of(whose.vo))
#: secrets, tokens, uploads: not even production or operators
OWN = AccessRule("OWN", "the owner alone", _is_owner)
#: archives that people upload for their payloads; one that was uploaded for no VO has no production
SOURCES = AccessRule(
    "SOURCES",
    "the owner, production of the VO for which it was uploaded, and operators",
    lambda caller, whose: (
        _is_owner(caller, whose) or caller.may("operator") or (bool(whose.vo) and _is_produced_by(caller, whose))
    ),
)
#: what the people of a VO share: datasets, groups
MEMBERS = AccessRule(
    "MEMBERS",
    "members of the VO, and operators",
    lambda caller, whose: caller.may("operator") or caller.is_of(whose.vo),
)
#: names in the catalogue: what belongs to no VO is not everybody's to write
WRITERS = AccessRule(
    "WRITERS",
    "the owner with the role user, production of its VO (of every VO, where it has none), and operators",
    lambda caller, whose: (
        caller.may("operator")
        or (_is_owner(caller, whose) and caller.may_for(whose.vo, "user"))
        or (bool(whose.vo or caller.vos is None) and _is_produced_by(caller, whose))
    ),
)
PRODUCTION = AccessRule("PRODUCTION", "production of the VO, and operators", _is_produced_by)
OPERATORS = AccessRule("OPERATORS", "operators", lambda caller, whose: caller.may("operator"))
#: what pilots do with jobs: a claim fences each report (`Reporter`), a VO each acquire
PILOTS = AccessRule(
    "PILOTS",
    "pilots of the VO, owners as pilots of their own jobs, and production",
    lambda caller, whose: _is_owner(caller, whose) or caller.may_for(whose.vo, "pilot", "production"),
)
#: subjects that a runtime parameter names for a queue or site (`named`), besides `produces_for_all`
NAMED = AccessRule(
    "NAMED", "production of all the VOs concerned, and whom a parameter names", lambda caller, whose: True
)


def produces_for_all(caller: Caller, vos: Iterable[str]) -> bool:
    """Whether somebody is production of each of these VOs; where none is named, of every VO."""
    if caller.may("operator"):
        return True
    concerned = [vo for vo in vos if vo]
    if not concerned:
        return caller.vos is None and caller.may("production")
    return all(caller.may_for(vo, "production") for vo in concerned)


RULES: tuple[AccessRule, ...] = (
    PUBLIC, STATES, DETAILS, COMMANDS, SUBMITTING, OWN, SOURCES, MEMBERS, WRITERS, PRODUCTION, OPERATORS, PILOTS, NAMED,
)  # fmt: skip


def vos_of_members(caller: Caller) -> list[str] | None:
    """The VOs to which MEMBERS lets a caller through, for statements; None: every one."""
    return None if caller.may("operator") or caller.vos is None else sorted(caller.vos)
