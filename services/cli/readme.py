"""Writes the generated parts of the documents (`python -m services.cli.readme`).

`--check` only compares.

A part stands between `<!-- generated: NAME -->` and `<!-- end of generated: NAME -->`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from services.cli.addresses import PROJECT
from services.cli.commands.task_commands import command_table
from services.cli.drawings import event_table, service_map
from services.cli.state_drawings import drawn, verb_table
from services.task_definition.desk.policy.setting import REFUSED_SETTINGS
from shared.states import GRAPHS
from shared.web.panda_paths import path_table

README = PROJECT / "README.md"


def services_part() -> str:
    """The map of who tells whom what."""
    return f"```mermaid\n{service_map()}\n```"


def states_part() -> str:
    """For each kind of row: its usual way as a diagram, then every verb with its source and target states."""
    return "\n\n".join(
        f"## States of {_with_article(graph.entity)}\n\n```mermaid\n{drawn(graph)}\n```\n\n{verb_table(graph)}"
        for graph in GRAPHS
    )


def refused_settings_part() -> str:
    """Runtime parameters of PanDA that are not read, and why."""
    reasons: dict[str, list[str]] = {}
    for key, why in REFUSED_SETTINGS.items():
        reasons.setdefault(why.removeprefix("is not read by this version: "), []).append(f"`{key}`")
    rows = [f"| {', '.join(keys)} | {why} |" for why, keys in reasons.items()]
    return "\n".join(["| parameter | why |", "|---|---|", *rows])


def _with_article(entity: str) -> str:
    name = entity.replace("_", " ")
    return f"an {name}" if name[0] in "aeiou" else f"a {name}"


#: the parts of each document, by name
DOCUMENTS: Mapping[Path, Mapping[str, Callable[[], str]]] = {
    README: {"services": services_part},
    PROJECT / "deploy" / "README.md": {"refused settings": refused_settings_part},
    PROJECT / "deploy" / "panda_api.md": {"paths": path_table},
    PROJECT / "shared" / "events" / "README.md": {"events": event_table},
    PROJECT / "shared" / "states" / "README.md": {"commands": command_table, "states": states_part},
}


def regenerated(path: Path) -> str:
    """The document with every generated part as it should be. Raises ValueError where a mark is missing."""
    text = path.read_text(encoding="utf-8")
    for name, make in DOCUMENTS[path].items():
        begin, end = f"<!-- generated: {name} -->", f"<!-- end of generated: {name} -->"
        pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
        content = f"{begin}\n{make()}\n{end}"
        text, count = pattern.subn(lambda _, content=content: content, text)  # type: ignore[misc]
        if count != 1:
            raise ValueError(f"{begin} ... {end} must stand in {path.name} exactly once, not {count} times")
    return text


def main(arguments: Sequence[str]) -> int:
    """0: written, or as it should be; 1: `--check` found a difference."""
    old = [path for path in DOCUMENTS if path.read_text(encoding="utf-8") != regenerated(path)]
    if "--check" in arguments:
        for path in old:
            name = path.relative_to(PROJECT)
            sys.stderr.write(f"{name}: its generated parts are old: run `python -m services.cli.readme`\n")
        return int(bool(old))
    for path in old:
        path.write_text(regenerated(path), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
