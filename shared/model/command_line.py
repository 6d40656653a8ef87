"""Placeholders of job parameters and of file names (JEDI: task parameters).

A template is cut once into pieces; each job then only fills them in. Known are: streams (`${IN}`, `${OUTPUT0}`,
`${LOG0}`, joined `${A,B}`, sliced `${IN[0:2]}`) with the decorators /L (comma; /LS or /S blank; /A quoted), /T (list
as text), /E (comma, URL-decoded), /F (tmpin_DATASET, the file that lists the names), /M[formula with #] (arithmetic);
numbers (`${SN}`, `${SN/P}`, `${RNDMSEED}`, `${MAXEVENTS}`, `${SKIPEVENTS}`, `${FIRSTEVENT}`); `${SURL}`,
`${ATTEMPTNR}`, `$JEDITASKID`, `$ORIGINPANDAID` (the job's own id, for each attempt is a job of its own); and for merge
jobs pairs of streams (`${TRN_OUTPUT:OUTPUT}`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import unquote

from shared.model.placeholders import OF_EVENT_SERVICE, computed, formula_of

_PLACEHOLDER = re.compile(rf"\$\{{([^${{}}]+)\}}|\$(JEDITASKID|ORIGINPANDAID)\b|{OF_EVENT_SERVICE}", re.DOTALL)
_SLICE = re.compile(r"^(.*?)\[(-?\d*):(-?\d*)\]$")
_DIGITS = re.compile(r"\d+")
_ATTEMPT = re.compile(r"\.\d+$")
SERIAL_WIDTH = 6
#: `$JEDITASKID` and `$ORIGINPANDAID` are texts, too
_WITHOUT_BRACES = {"JEDITASKID": "TASKID", "ORIGINPANDAID": "PANDAID"}
#: texts that are the same for every job of a task, and those that each job has besides
TEXTS_OF_TASKS = ("TASKID", "SURL", "USERNAME", "MIDDLENAME")
TEXTS_OF_JOBS = (
    *TEXTS_OF_TASKS, "SN", "RNDMSEED", "MAXEVENTS", "SKIPEVENTS", "FIRSTEVENT", "ATTEMPTNR", "PANDAID", "SEQNUMBER",
)  # fmt: skip
#: texts that a job has whose task describes its jobs in XML
TEXTS_OF_XML = ("XML_OUTMAP", "XML_EXESTR")
#: texts of a job that reads one segment of the task's input
TEXTS_OF_SEGMENTS = ("SEGMENT_NAME", "SEGMENT_ID")
LIST_FILE = "F"
#: the field's client writes it where no database release is asked for (prun: %DB in --exec): the text stays
_STAYS = frozenset({"DBR"})
#: what is merged into the log of merge jobs (PanDA client: --mergeLog): the logs of all streams
_ALL_LOGS = {"TRN_LOG_MERGE": "TRN_LOG"}
_LOGS = ("TRN_LOG", *_ALL_LOGS)
_CUT = "\0"
_ABSENT = "\1"
_ABSENT_OPTION = re.compile(r"(?:(?<=\s)|^)-[\w.-]+=([\"']?)\x01\1(?:\s+|$)")


class UnresolvedPlaceholder(ValueError):
    """A placeholder that has no value for this job: the job cannot be defined."""

    def __init__(self, placeholder: str, known: Sequence[str], reason: str | None = None) -> None:
        why = f"has no value; known here: {', '.join(sorted(known))}" if reason is None else reason
        super().__init__(f"placeholder ${{{placeholder}}} {why}")
        self.placeholder = placeholder


@dataclass(frozen=True)
class Values:
    """What a job fills in: file names by stream, texts by name, and names of datasets by input stream.

    A merge job goes without the streams `left_out`: no job before it wrote them.
    """

    streams: Mapping[str, Sequence[str]] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    datasets: Mapping[str, str] = field(default_factory=dict)
    left_out: frozenset[str] = frozenset()

    def names(self) -> list[str]:
        """Every placeholder that can be filled in."""
        return [*self.streams, *self.texts]


@dataclass(frozen=True, slots=True)
class _Piece:
    """Literal text, or one placeholder."""

    text: str
    name: str = ""
    decorator: str = ""

    @property
    def computes(self) -> bool:
        """Whether the value is used in a formula."""
        return self.decorator.startswith("M[")


@lru_cache(maxsize=4096)
def pieces_of(template: str) -> tuple[_Piece, ...]:
    """The template cut at its placeholders; parts for event service only are left out."""
    pieces: list[_Piece] = []
    end = 0
    for match in _PLACEHOLDER.finditer(template):
        if match.start() > end:
            pieces.append(_Piece(template[end : match.start()]))
        end = match.end()
        if match.group(2):
            pieces.append(_Piece("", _WITHOUT_BRACES[match.group(2)]))
        elif match.group(1):
            name, _, decorator = match.group(1).partition("/")
            pieces.append(_Piece("", name, decorator))
    if end < len(template):
        pieces.append(_Piece(template[end:]))
    return tuple(pieces)


def placeholder_texts(template: str) -> tuple[str, ...]:
    """The placeholders of a template as they are written, each once."""
    return tuple(dict.fromkeys(match[0] for match in _PLACEHOLDER.finditer(template) if match[1] or match[2]))


def placeholders(template: str) -> frozenset[str]:
    """Names of the placeholders of a template, without decorators."""
    return frozenset(piece.name for piece in pieces_of(template) if piece.name)


def list_streams(template: str) -> tuple[str, ...]:
    """Streams that the command line names by the file that lists them (`${IN/F}`), each once."""
    return tuple(dict.fromkeys(piece.name for piece in pieces_of(template) if piece.decorator == LIST_FILE))


def lists_to_write(streams: Iterable[str], values: Values) -> str:
    """The files that the pilot writes before the payload starts, with the names of these streams.

    Their form is `tmpin_DATASET:name,name^tmpin_DATASET:name`.
    """
    lists: dict[str, list[str]] = {}
    for stream in streams:
        if stream in values.datasets:
            lists.setdefault(f"tmpin_{values.datasets[stream]}", []).extend(values.streams[stream])
    return "^".join(f"{name}:{','.join(dict.fromkeys(lfns))}" for name, lfns in lists.items())


def reads(template: str, stream: str) -> bool:
    """Whether a template names a stream: alone, joined, sliced or in a pair."""
    for name in placeholders(template):
        source, colon, _ = name.partition("[")[0].partition(":")
        if _is_numbered(stream, source) if colon else stream in map(str.strip, source.split(",")):
            return True
    return False


def _is_numbered(stream: str, name: str) -> bool:
    """Whether a stream is one of a pair's: `TRN_OUTPUT` stands for TRN_OUTPUT, TRN_OUTPUT0, TRN_OUTPUT1, ..."""
    name = _ALL_LOGS.get(name, name)
    return stream == name or (stream.startswith(name) and stream[len(name) :].isdigit())


def fill(template: str, values: Values) -> str:
    """The template with every placeholder replaced. Raises UnresolvedPlaceholder.

    A stream that is left out has no text, and an option goes with it: of `--in=${TRN_OUTPUT1/L} -n 3` stays `-n 3`.
    """
    texts, streams = values.texts, values.streams
    parts = []
    for piece in pieces_of(template):
        if not piece.name:
            parts.append(piece.text)
            continue
        text = None if piece.computes else texts.get(piece.name)
        if text is None and not piece.decorator:
            names = streams.get(piece.name)
            text = names[0] if names is not None and len(names) == 1 else None
        parts.append(
            _value(piece.name, piece.decorator, values) if text is None else as_asked(piece.name, piece.decorator, text)
        )
    filled = "".join(parts)
    return _ABSENT_OPTION.sub("", filled).replace(_ABSENT, "").strip() if values.left_out else filled


def as_asked(name: str, decorator: str, text: str) -> str:
    """A text as its placeholder asks for it: a serial number without P is a plain number.

    Example: where ${SN/P} is 000012, ${SN} is 12.
    """
    return text.lstrip("0") or "0" if name == "SN" and not decorator else text


def _is_absent(name: str, values: Values) -> bool:
    """Whether all streams of a placeholder are left out."""
    source, colon, _ = name.partition("[")[0].partition(":")
    if colon:
        known = {one for one in (*values.streams, *values.left_out) if _is_numbered(one, source)}
        return bool(known) and known <= values.left_out
    return {part.strip() for part in source.split(",")} <= values.left_out


def _computed(name: str, formula: str, decorator: str, values: Values) -> str:
    """The formula with the number or the one name in place of #: `${SN/M[#*10]}` of 000012 is 120."""
    whole = f"{name}/{decorator}"
    names = values.streams.get(name, ())
    text = values.texts.get(name) or (names[0] if len(names) == 1 else None)
    if text is None:
        raise UnresolvedPlaceholder(whole, values.names())
    try:
        return computed(formula, float(text) if "." in text else int(text))
    except ValueError as error:
        reason = f"cannot be computed from {text!r}: {error}"
        raise UnresolvedPlaceholder(whole, values.names(), reason) from error


def _value(name: str, decorator: str, values: Values) -> str:
    if values.left_out and _is_absent(name, values):
        return _ABSENT
    formula = formula_of(decorator)
    if formula is not None:
        return _computed(name, formula, decorator, values)
    if decorator == LIST_FILE and name in values.datasets:
        return f"tmpin_{values.datasets[name]}"
    if decorator == LIST_FILE:
        raise UnresolvedPlaceholder(f"{name}/{decorator}", sorted(values.datasets))
    text = values.texts.get(name)
    if text is not None:
        return text
    if ":" in name and "[" not in name:
        return merge_pairs(name, values)
    sliced = _SLICE.match(name)
    stream, low, high = (sliced.group(1), sliced.group(2), sliced.group(3)) if sliced else (name, "", "")
    names: list[str] = []
    for part in stream.split(","):
        found = () if part.strip() in values.left_out else values.streams.get(part.strip())
        if found is None and name in _STAYS:
            return f"${{{name}}}"
        if found is None:
            raise UnresolvedPlaceholder(name, values.names())
        names.extend(found)
    if sliced:
        names = names[int(low) if low else None : int(high) if high else None]
    return written(names, decorator)


def written(names: Sequence[str], decorator: str) -> str:
    """File names as one text, by decorator; without one, compact."""
    if "E" in decorator:
        names = [unquote(name) for name in names]
    if "T" in decorator:
        return "[" + ",".join(f"'{name}'" for name in names) + "]"
    if "A" in decorator:
        return (" " if "S" in decorator else ",").join(f"'{name}'" for name in names)
    if "S" in decorator:
        return " ".join(names)
    return ",".join(names) if "L" in decorator or "E" in decorator else compact(names)


def compact(names: Sequence[str]) -> str:
    """One name as it is; several as head[1,2,3]tail if they differ in one number only, else with commas.

    An attempt suffix (".1" at the end) is left out of the compact form if all have one.
    """
    if len(names) <= 1:
        return names[0] if names else ""
    bare = [_ATTEMPT.sub("", name) for name in names] if all(_ATTEMPT.search(name) for name in names) else list(names)
    cut = [_DIGITS.split(name) for name in bare]
    numbers = [_DIGITS.findall(name) for name in bare]
    if any(parts != cut[0] for parts in cut) or not numbers[0]:
        return ",".join(names)
    differing = [i for i in range(len(numbers[0])) if any(row[i] != numbers[0][i] for row in numbers)]
    if len(differing) != 1:
        return ",".join(names)
    place = differing[0]
    if len({len(row[place]) for row in numbers}) != 1:
        return ",".join(names)
    head = "".join(text + number for text, number in zip(cut[0][:place], numbers[0][:place], strict=True))
    head += cut[0][place]
    tail = cut[0][place + 1]
    for text, number in zip(cut[0][place + 2 :], numbers[0][place + 1 :], strict=True):
        tail += number + text
    return f"{head}[{','.join(row[place] for row in numbers)}]{tail}"


def merge_pairs(name: str, values: Values) -> str:
    """Pairs such as "in1,in2:out", separated by blanks.

    For `TRN_OUTPUT:OUTPUT` one pair for each stream whose name starts like that; for `TRN_LOG_MERGE:LOG_MERGE` one of
    the logs of all streams.
    """
    source, _, target = name.partition(":")
    read = [stream for stream in sorted(values.streams) if _is_numbered(stream, source)]
    if source in _ALL_LOGS:
        pairs = [([lfn for stream in read for lfn in values.streams[stream]], values.streams.get(target))]
    else:
        pairs = [(list(values.streams[one]), values.streams.get(target + one[len(source) :])) for one in read]
    told = [f"{','.join(lfns)}:{','.join(out)}" for lfns, out in pairs if lfns and out]
    if not read and source in _LOGS:  # the field's client names them also where a task has none
        return ""
    if not told:
        raise UnresolvedPlaceholder(name, values.names())
    return " ".join(told)


def around_serial(template: str, task_id: int, texts: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """A file name's template cut at its serial number, the rest filled in; `serial.join` gives the name."""
    filled = fill(template, Values({}, {**(texts or {}), "SN": _CUT, "TASKID": str(task_id)}))
    return tuple(filled.split(_CUT))


def padded(serial: int) -> str:
    """A serial number as names have it: on six digits."""
    return f"{serial:0{SERIAL_WIDTH}d}"


def file_name(template: str, serial: int, task_id: int, texts: Mapping[str, str] | None = None) -> str:
    """The name of one output: `${SN}` and `${SN/P}` are the serial number."""
    return padded(serial).join(around_serial(template, task_id, texts))
