"""Commands for the pilot that has a job: which there are, how a pilot is told, and who may give them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase

#: what people who run the system may order
OF_OPERATORS = ("tobekilled", "softkill", "nocleanup")
ENDING = ("tobekilled", "softkill")
DEBUG, DEBUG_OFF = "debug", "debugoff"
LONGEST_COMMAND = 200


@dataclass(frozen=True)
class _Program:
    """A program that a pilot runs in debug mode: published ones by a shell, with rights of their own.

    `usual` is what it is given where nothing is said (None: it must be said), `options` what may stand before a path.
    """

    usual: str | None
    options: re.Pattern[str]
    takes_path: bool
    allowed: str


#: published pilots know such a command by its blank; tail and ls look in the directory of the job, du in the pilot's
PROGRAMS = {
    "tail": _Program(None, re.compile(r"(-n ?[0-9]{1,6}|-[0-9]{1,6})?"), True, "tail [-N] FILE"),
    # of the last word a published pilot makes a path in the directory of the job; without one it lists its own
    "ls": _Program("-al .", re.compile(r"(-[1AaFghilnoRrSst]+)?", re.ASCII), True, "ls [-1AaFghilnoRrSst] [DIR]"),
    # a list: ps prints the environment of processes for many words, also for some of wrong ones, secrets included
    "ps": _Program(
        "-ef", re.compile(r"-e|-ef|-efww|-eF|-efH|-ejH|-eLf|aux|auxww|auxf|ax|axjf"), False,
        "ps and one of -e, -ef, -efww, -eF, -efH, -ejH, -eLf, aux, auxww, auxf, ax, axjf",
    ),
    "du": _Program("-sk", re.compile(r"(-[chkmsx]+)?"), True, "du [-chkmsx] [DIR]"),
}  # fmt: skip
#: what debugoff takes back. Published pilots look for "debug" in any part of the text, so that they would turn debug
#: mode on if they heard "debugoff"; what they are no longer told ends with the payload.
OF_DEBUG_MODE = (DEBUG, *PROGRAMS)
#: where published pilots leave the secrets of the job's owner for its payload
SECRETS_FILE = "panda_secrets.json"
_PATH = re.compile(r"[\w./=+*-]+", re.ASCII)
_OF_PATHS = (
    "one path inside the directory of the job, of letters, digits and ._/=+*-, that does not begin with / or -, "
    "and has no .. in it"
)
_NOT_SECRETS = f", and is no name or pattern of {SECRETS_FILE}"
ALLOWED = f"{DEBUG}, {DEBUG_OFF}, {', '.join(one.allowed for one in PROGRAMS.values())}, {', '.join(OF_OPERATORS)}"


def told_to_pilot(text: str) -> str:
    """A command as the pilot is told. Raises ValueError with what is allowed.

    Example: "ls" is "ls -al .", "tail log.txt" stays as it is, "tail a;b" and "tail /etc/passwd" are refused.
    """
    command = " ".join(text.split())
    if command in (DEBUG, DEBUG_OFF, *OF_OPERATORS):
        return command
    name, _, arguments = command.partition(" ")
    program = PROGRAMS.get(name)
    if program is None:
        raise ValueError(f"allowed: {ALLOWED}")
    arguments = arguments or program.usual or ""
    if not _fits(name, program, arguments) or len(command) > LONGEST_COMMAND:
        paths = f", with {_OF_PATHS}{_NOT_SECRETS * (name == 'tail')}" if program.takes_path else ""
        raise ValueError(f"allowed: {program.allowed} of at most {LONGEST_COMMAND} characters{paths}")
    return f"{name} {_of_job(arguments) if name == 'ls' else arguments}"


def _fits(name: str, program: _Program, arguments: str) -> bool:
    """Whether these are options of the program and at most one path in the directory of the job."""
    if "tobekilled" in arguments:  # a pilot looks for this word anywhere in what it is told
        return False
    if program.options.fullmatch(arguments):
        return name != "tail"
    options, _, path = arguments.rpartition(" ")
    fits = program.takes_path and program.options.fullmatch(options) is not None and is_inside(path)
    return fits and not (name == "tail" and _may_be_secrets(path))


def _may_be_secrets(path: str) -> bool:
    """Whether a shell may find the file with secrets by this path: what pilots send back is not encrypted."""
    return fnmatchcase(SECRETS_FILE, path.rstrip("/").rpartition("/")[2].lower())


def _of_job(arguments: str) -> str:
    """Arguments of ls with a path that published pilots turn into one of the job.

    They put the job's directory before each occurrence of the last word, also in "ls" and in its options; without a
    path they list their own directory.
    """
    options, _, path = arguments.rpartition(" ")
    if arguments.startswith("-") and not options:
        return f"{arguments} ."
    path = path if path == "." or path.startswith("./") else f"./{path}"
    return f"{options} {path}".strip()


def is_inside(path: str) -> bool:
    """Whether a path stays below the directory in which it is read, by a shell or by Python's glob."""
    parts = path.split("/")
    return (
        _PATH.fullmatch(path) is not None
        and path[0] not in "/-"
        and ".." not in parts
        and not any(part.startswith(".") and "*" in part for part in parts)  # a shell takes .. for one of .*
    )


def is_of_debug_mode(command: str) -> bool:
    """Whether the owner of a job may give it: debug mode affects no other job."""
    return command.partition(" ")[0] in (*OF_DEBUG_MODE, DEBUG_OFF)


def shows_job(command: str) -> bool:
    """Whether the pilot sends back what the job prints or what is in its directory."""
    return command.partition(" ")[0] in OF_DEBUG_MODE
