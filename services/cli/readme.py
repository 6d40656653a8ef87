"""The generated parts of README.md: `python -m services.cli.readme` writes them, `--check` only compares.

A part stands between `<!-- generated: NAME -->` and `<!-- end of generated: NAME -->`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence

from services.cli.addresses import PROJECT
from services.cli.drawings import event_table, service_map
from shared.states import GRAPHS

README = PROJECT / "README.md"


def services_part() -> str:
    """The map, then the table of events folded away."""
    table = f"<details><summary>All events</summary>\n\n{event_table()}\n\n</details>"
    return f"```mermaid\n{service_map()}\n```\n\n{table}"


def states_part() -> str:
    """A diagram for each kind of row, folded away."""
    parts = []
    for graph in GRAPHS:
        name = graph.entity.replace("_", " ")
        parts.append(
            f"<details><summary>States of a {name}</summary>\n\n```mermaid\n{graph.mermaid()}\n```\n\n</details>"
        )
    return "\n\n".join(parts)


PARTS: Mapping[str, Callable[[], str]] = {"services": services_part, "states": states_part}


def regenerated(text: str) -> str:
    """The same text with every generated part as it should be. Raises ValueError where a mark is missing."""
    for name, make in PARTS.items():
        begin, end = f"<!-- generated: {name} -->", f"<!-- end of generated: {name} -->"
        pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
        content = f"{begin}\n{make()}\n{end}"
        text, count = pattern.subn(lambda _, content=content: content, text)  # type: ignore[misc]
        if count != 1:
            raise ValueError(f"{begin} ... {end} must stand in the text exactly once, not {count} times")
    return text


def main(arguments: Sequence[str]) -> int:
    """0: written, or as it should be; 1: `--check` found a difference."""
    text = README.read_text(encoding="utf-8")
    wanted = regenerated(text)
    if "--check" in arguments:
        if text != wanted:
            sys.stderr.write(f"{README.name}: its generated parts are old: run `python -m services.cli.readme`\n")
        return int(text != wanted)
    README.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
