"""What may be ordered of a pilot in debug mode, and what a published pilot makes of it."""

from __future__ import annotations

import glob
import os
import re
from pathlib import Path

import pytest

from services.job_dispatch.policy.pilot_commands import told_to_pilot

ESCAPES = [
    "/etc/passwd", "../x", "a/../../x", "..", "./../x", "a/..", "-f", "--follow=name", "~/x", "~root", "$HOME", "`id`",
    "a;b", "a|b", "a>b", "a&b", "a\\b", "'a'", '"a"', "(a)", "a,b", "[a]", "?", "{a,b}", ".*", "a/.*/b", ".*.", "//etc",
    "a b", "a /etc/passwd", "/etc/passwd a", "é", "a\x00", "tobekilled", "x" * 250, "!x", "#x", "%x",
]  # fmt: skip
WRITTEN = {
    "tail": ["tail -f a", "tail --pid=1 a", "tail -n 5", "tail", "tail -5", "tail -n 5 -c 3 a", "tail -n5x a"],
    "ls": ["ls -L a", "ls -al -R a", "ls --color a", "ls -H a", "ls a b"],
    "ps": ["ps e", "ps eww", "ps auxe", "ps -auxe", "ps axe", "ps -ejfe", "ps -o args", "ps -p 1", "ps a", "ps -C x"],
    "du": ["du -a", "du -L a", "du --files0-from=a", "du -sk a b", "du -D a", "du -X a"],
    "gdb": ["gdb 1", "cat a", "rm a", "sh -c a", "tail\ta;b"],
}


@pytest.mark.parametrize("program", ["tail", "ls", "du"])
@pytest.mark.parametrize("path", ESCAPES)
def test_a_path_outside_the_directory_of_the_job_or_for_a_shell_is_refused(program: str, path: str) -> None:
    with pytest.raises(ValueError, match="allowed: "):
        told_to_pilot(f"{program} {path}")
    with pytest.raises(ValueError, match="allowed: "):
        told_to_pilot(f"{program} -s {path}" if program != "tail" else f"tail -5 {path}")


@pytest.mark.parametrize("text", [one for texts in WRITTEN.values() for one in texts])
def test_options_that_read_elsewhere_or_make_the_pilot_run_something_else_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="allowed: "):
        told_to_pilot(text)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("tail payload.stdout", "tail payload.stdout"), ("tail -n 50  log.RAWtoALL", "tail -n 50 log.RAWtoALL"),
        ("tail workDir/tmp.stdout*", "tail workDir/tmp.stdout*"), ("ls", "ls -al ."),
        ("ls -ltr workDir", "ls -ltr ./workDir"), ("ls .hidden/x", "ls ./.hidden/x"), ("ls ls", "ls ./ls"),
        ("ls -l l", "ls -l ./l"), ("ps", "ps -ef"), ("ps aux", "ps aux"),
        ("du", "du -sk"), ("du -sh a", "du -sh a"),
        ("ls -l", "ls -l ."), ("debug", "debug"), ("tobekilled", "tobekilled"),
    ],
)  # fmt: skip
def test_what_people_look_at_is_told(text: str, told: str) -> None:
    assert told_to_pilot(text) == told


def test_a_refusal_says_what_the_program_may_be_given() -> None:
    with pytest.raises(ValueError, match=re.escape("allowed: tail [-N] FILE of at most 200 characters, with one path")):
        told_to_pilot("tail /etc/passwd")
    with pytest.raises(ValueError, match="allowed: ps and one of -e, -ef, "):
        told_to_pilot("ps eww")


def as_published(command: str, work_dir: str) -> list[str]:
    """The paths that a published pilot reads for it (its get_ls and get_requested_log_tail)."""
    path = command.rsplit(" ", maxsplit=1)[-1]
    if command.startswith("ls"):
        path = "." if path.startswith("-") else path
        words = command.replace(path, os.path.join(work_dir, path)).split(" ")
        assert words[0] == "ls", "it runs a file of the job"
        return [word for word in words if "/" in word]
    return glob.glob(os.path.join(work_dir, path))


@pytest.mark.parametrize(
    "text",
    [
        "tail *.log",
        "tail */*.log",
        "tail ./log",
        "ls -al *",
        "ls -al",
        "ls -l .",
        "ls -1 a/.b",
        "ls ls",
        "ls -l l",
        "ls s",
        "ls -al a",
    ],
)
def test_a_published_pilot_stays_in_the_directory_of_the_job(tmp_path: Path, text: str) -> None:
    work_dir = tmp_path / "job"
    (work_dir / "a").mkdir(parents=True)
    for name in ("log", "ls", "a/.b", "../secret"):
        (work_dir / name).write_text("x")
    command = told_to_pilot(text)
    read = as_published(command, str(work_dir))
    assert all(Path(one).resolve().is_relative_to(work_dir) for one in read)
    assert read or "*" in text
