"""One command on tasks: what it does, when it is accepted, what it takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from shared.states.task import TaskStatus

#: "flag": true or false; "place": a site, cloud or nucleus; "parameters": an object of task parameters, or its text;
#: "rule": the value of a split rule; "names": a list of texts
Kind = Literal["flag", "number", "text", "place", "parameters", "rule", "names"]


@dataclass(frozen=True)
class Given:
    """What a command takes besides the task and a reason.

    `required`: it has no default. `option`: of the command line, where that is not the name; empty: an argument of its
    own. `inverted`: the option says the contrary, and what it says when it is not given is true.
    """

    name: str
    kind: Kind
    means: str
    default: Any = None
    required: bool = False
    option: str | None = None
    inverted: bool = False
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class TaskCommand:
    """One command.

    `states`: of the task in which it is accepted. `path`: of the API, `verb`: of the command line, where they differ
    from the name. `by_production`: users may not give it for their own tasks. `right`: what a token must not lack.
    `id_name`: what callers may name the task besides task_id.
    """

    name: str
    does: str
    states: frozenset[TaskStatus]
    leads_to: str
    jobs: str = "go on"
    files: str = "stay"
    children: str = "stay"
    takes: tuple[Given, ...] = ()
    path: str = ""
    verb: str = ""
    by_production: bool = False
    right: str = "modify"
    id_name: str = ""

    @property
    def api_path(self) -> str:
        """The last part of its path in the API."""
        return self.path or self.name

    @property
    def cli_verb(self) -> str:
        """Its verb on the command line."""
        return self.verb or self.name.replace("_", "-")

    @property
    def who(self) -> str:
        """Who may give it, in words."""
        return "production" if self.by_production else "owner, production"
