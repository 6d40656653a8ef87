"""Which folders of a package import which, read from their imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Set
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: a folder or a module at the root of a package, by its path
Place = tuple[str, ...]


def imported(path: Path) -> Iterator[str]:
    """The modules and names that a file imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from (f"{node.module}.{one.name}" for one in node.names)
        elif isinstance(node, ast.Import):
            yield from (one.name for one in node.names)


def arrows(package: Path) -> dict[Place, set[Place]]:
    """From each folder of a package, and each module at its root, to those beside it that it imports.

    Example: `acquire/claims.py` imports `policy/lane.py`: ("acquire",) has ("policy",). Of folders in a folder those
    count that lie beside each other.
    """
    prefix = f"{'.'.join(package.relative_to(ROOT).parts)}."
    modules = {path.relative_to(package).with_suffix("").parts for path in package.rglob("*.py")}
    folders = {path[:n] for path in modules for n in range(1, len(path))}
    found: dict[Place, set[Place]] = {}
    for path in package.rglob("*.py"):
        source = path.relative_to(package).with_suffix("").parts
        for name in imported(path):
            target = tuple(name.removeprefix(prefix).split(".")) if name.startswith(prefix) else ()
            n = 1 + next((n for n, (a, b) in enumerate(zip(source, target, strict=False)) if a != b), len(target))
            here, there = source[:n], target[:n]
            if here != there and n <= len(target) and all(one in folders or len(one) == 1 for one in (here, there)):
                found.setdefault(here, set()).add(there)
    return found


def in_circles(arrows: Mapping[Place, Set[Place]]) -> set[tuple[str, str]]:
    """The arrows that lead back to where they begin, as texts."""
    reached = {one: _all_from(one, arrows) for one in arrows}
    return {
        ("/".join(one), "/".join(other))
        for one, others in arrows.items()
        for other in others
        if one in reached.get(other, ())
    }


def _all_from(begin: Place, arrows: Mapping[Place, Set[Place]]) -> set[Place]:
    found, left = set[Place](), [begin]
    while left:
        new = arrows.get(left.pop(), set()) - found
        found |= new
        left.extend(new)
    return found
