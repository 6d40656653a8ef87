"""Why a command did not do what it was asked, each kind with its exit code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class RejectedField:
    """One thing wrong with what was sent: which field, the value found, what is allowed."""

    field: str
    value: str
    allowed: str

    def __str__(self) -> str:
        parts = [part for part in (self.field, f"value {self.value}" if self.value else "", self.allowed) if part]
        return ": ".join(parts)


class CommandFailure(Exception):
    """A problem meant for the person who typed the command; `exit_code` tells a script what kind it is."""

    exit_code = 1

    def __init__(self, message: str, problems: Sequence[RejectedField] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.problems = tuple(problems)


class Refused(CommandFailure):
    """A service refused the request, or a check found something wrong."""

    exit_code = 1


class WrongUsage(CommandFailure):
    """The command, a file it was given, or the configuration is wrong: nothing was sent."""

    exit_code = 2


class Unreachable(CommandFailure):
    """A service does not answer, or its address is unknown."""

    exit_code = 3
