"""Every verb answers programs: with --json it prints one JSON document, where it does not always."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from services.cli.app import command_line

#: verbs that print JSON whatever they are told, write files, or print nothing
WITHOUT = {
    "schema": "always JSON",
    "dry-run task-brokerage": "always JSON",
    "dry-run job-brokerage": "always JSON",
    "dry-run analysis-brokerage": "always JSON",
    "dry-run split": "always JSON",
    "snapshot save": "writes a file of JSON",
    "snapshot task": "writes a file of JSON",
    "run": "runs until it is stopped",
    "secrets add-key": "writes a file of keys",
}


def verbs(command: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every verb with its command."""
    below = getattr(command, "commands", {})
    if not below or command.invoke_without_command:
        yield name, command
    for one, found in below.items():
        yield from verbs(found, f"{name} {one}".strip())


def test_every_verb_that_prints_data_takes_json() -> None:
    found = {name for name, command in verbs(command_line()) if name}
    lacking = {
        name
        for name, command in verbs(command_line())
        if name and not any("--json" in option.opts for option in command.params)
    }
    assert lacking == set(WITHOUT) and len(found) > 60


@pytest.mark.parametrize(
    ("arguments", "path", "answer"),
    [
        (("cordon", "Q", "--reason", "x"), "grid/cordon", {"queue": "Q"}),
        (("uncordon", "Q"), "grid/uncordon", {"queue": "Q"}),
        (("debug", "7", "ls"), "job/set_command", "job 7: its pilot is told: ls"),
        (("groups", "set", "g", "--vo", "demo", "job_share=5"), "group/set", {"name": "g"}),
        (("users", "remove", "ann"), "user/remove", None),
        (("retry-rules", "remove", "3"), "retry_rule/remove", {"rule_id": 3}),
        (("token", "revoke", "--id", "t-1"), "token/revoke", {"token_id": "t-1"}),
    ],
)
def test_a_verb_that_changes_something_prints_what_the_service_answered(
    services, orrery, arguments: tuple[str, ...], path: str, answer: Any
) -> None:
    services.says(path, answer)
    outcome = orrery(*arguments, "--json")
    assert outcome.code == 0, outcome.err
    told = json.loads(outcome.out)
    assert told["data"] == answer and told["message"]


def test_a_task_that_is_submitted_again_and_again_is_answered_as_a_list(services, orrery, tmp_path) -> None:
    services.says("periodic_task/submit", {"periodic_id": 4})
    file = tmp_path / "task.json"
    file.write_text('{"taskName": "x"}')
    outcome = orrery("periodic", "submit", str(file), "--every", "3600", "--json")
    assert outcome.code == 0 and json.loads(outcome.out) == [{"periodic_id": 4}], outcome.err
