"""The command line of a chunk's jobs, cut once: each job fills in its own names and numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shared.model import command_line

#: decorators that say how names are written, and nothing else
_WAYS_OF_WRITING = frozenset("LSATE")
#: what a name has that joins, cuts or pairs streams
_JOINS = frozenset(",[:")


@dataclass(frozen=True)
class CommandFormat:
    """A command line as a format, with the placeholder and its decorator of each place.

    `names`: its placeholders.
    """

    text: str
    places: tuple[tuple[str, str], ...]
    names: frozenset[str]

    def filled(self, streams: Mapping[str, Sequence[str]], texts: Mapping[str, str]) -> str | None:
        """The command line of one job as `command_line.fill` has it; None: that says what is missing."""
        values = []
        for name, decorator in self.places:
            text = texts.get(name)
            if text is None:
                names = streams.get(name)
                if names is None:
                    return None
                text = names[0] if len(names) == 1 and not decorator else command_line.written(names, decorator)
            else:
                text = command_line.as_asked(name, decorator, text)
            values.append(text)
        return self.text % tuple(values)


def format_of(template: str) -> CommandFormat | None:
    """The format of a command line of plain texts and streams; None: it has other placeholders.

    Example: "-i ${IN/L} -n 100%" is "-i %s -n 100%%" with the place (IN, L).
    """
    parts, places = [], []
    for piece in command_line.pieces_of(template):
        if not piece.name:
            parts.append(piece.text.replace("%", "%%"))
            continue
        is_text = piece.name in command_line.TEXTS_OF_JOBS
        if piece.computes or _JOINS.intersection(piece.name):
            return None
        if not is_text and not _WAYS_OF_WRITING.issuperset(piece.decorator):
            return None
        parts.append("%s")
        places.append((piece.name, piece.decorator))
    return CommandFormat("".join(parts), tuple(places), frozenset(name for name, _ in places))
