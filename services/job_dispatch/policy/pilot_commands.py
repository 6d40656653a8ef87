"""Commands for the pilot that has a job: which there are, how a pilot is told, and who may give them."""

from __future__ import annotations

import re

#: what people who run the system may order
OF_OPERATORS = ("tobekilled", "softkill", "nocleanup")
ENDING = ("tobekilled", "softkill")
DEBUG, DEBUG_OFF = "debug", "debugoff"
#: programs that a pilot runs in debug mode, with what they are given where nothing is said; None: it must be said.
#: Published pilots know such a command by its blank.
PROGRAMS: dict[str, str | None] = {"tail": None, "ls": "-al", "ps": "-ef", "du": "-sk"}
#: what debugoff takes back. Published pilots look for "debug" in any part of the text, so that they would turn debug
#: mode on if they heard "debugoff"; what they are no longer told ends with the payload.
OF_DEBUG_MODE = (DEBUG, *PROGRAMS)

LONGEST_COMMAND = 200
_ARGUMENTS = re.compile(r"[\w./=+*-]+(?: [\w./=+*-]+)*", re.ASCII)
ALLOWED = f"{DEBUG}, {DEBUG_OFF}, {', '.join(PROGRAMS)} (with arguments), {', '.join(OF_OPERATORS)}"


def told_to_pilot(text: str) -> str:
    """A command as the pilot is told. Raises ValueError with what is allowed.

    Example: "ls" is "ls -al", "tail log.txt" stays as it is, "tail a;b" is refused.
    """
    command = " ".join(text.split())
    if command in (DEBUG, DEBUG_OFF, *OF_OPERATORS):
        return command
    program, _, arguments = command.partition(" ")
    if program not in PROGRAMS:
        raise ValueError(f"allowed: {ALLOWED}")
    arguments = arguments or PROGRAMS[program] or ""
    # a pilot looks for this word anywhere in what it is told
    if not _ARGUMENTS.fullmatch(arguments) or "tobekilled" in arguments or len(command) > LONGEST_COMMAND:
        raise ValueError(f"allowed: {program} with up to {LONGEST_COMMAND} letters, digits, blanks and any of ._/=+*-")
    return f"{program} {arguments}"


def is_of_debug_mode(command: str) -> bool:
    """Whether the owner of a job may give it: debug mode affects no other job."""
    return command.partition(" ")[0] in (*OF_DEBUG_MODE, DEBUG_OFF)
