"""Names that have so much in common with others that an index of parts of names finds most of them."""

from __future__ import annotations

import re
from collections.abc import Sequence

#: names that are looked at to know it, and the part of them that makes a name common
SAMPLED, COMMON = 1000, 0.05
#: ids among which a common name is looked for
NEWEST = 100_000
_BETWEEN_WORDS = re.compile(r"[\W_]+")


def is_common(part: str, names: Sequence[str]) -> bool:
    """Whether an index would read many names for a part of one, and few are like it.

    In the part * stands for any text. The index has names by their threes of characters, and reads those that have all
    threes of the part. What many are like is found soon without it. Example: ben*user is common among user.ben.1,
    user.ben.2, ..., and ben is not.
    """
    if len(names) < SAMPLED:
        return False
    pattern = part if "*" in part else f"*{part}*"
    threes, many = _threes(pattern.lower()), SAMPLED * COMMON
    spaced = (f"  {_BETWEEN_WORDS.sub('   ', name.lower())} " for name in names)
    if sum(all(one in name for one in threes) for name in spaced) < many:
        return False
    return sum(_is_like(name, pattern) for name in names) < many


def _is_like(name: str, pattern: str) -> bool:
    """Whether a name has the parts of a pattern one after the other; in as many steps as it has characters."""
    first, *parts, last = pattern.split("*")
    place = len(first)
    for one in parts:
        found = name.find(one, place)
        if found < 0:
            return False
        place = found + len(one)
    return name.startswith(first) and name.endswith(last) and place + len(last) <= len(name)


def _threes(pattern: str) -> set[str]:
    """What pg_trgm looks for: of each word, with spaces where it begins and ends. Example: .77* has "  7" and " 77"."""
    found = set[str]()
    for word in re.finditer(r"[^\W_]+", pattern):
        begins, ends = pattern[word.start() - 1 : word.start()] != "*", pattern[word.end() : word.end() + 1] != "*"
        text = f"{'  ' * begins}{word[0]}{' ' * ends}"
        found |= {text[place : place + 3] for place in range(len(text) - 2)}
    return found


def only_newest(what: str) -> str:
    """What is said with a list that has not all. Example of `what`: tasks."""
    return f"names like many others were looked for among the newest {NEWEST:,} {what} alone: write more"
