"""The files that a pilot says to have transferred, and what of a report was not kept.

Lists of files are counted before they are read, and everything that is stored has a largest size.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from services.job_dispatch.api.body import INNER, without_nul
from services.job_dispatch.api.measured import BYTES
from services.job_dispatch.api.requests import whole
from shared.web.json_text import parse_json_now
from shared.web.values import absent

OUTPUTS = "job_output_report"
#: files in the list of one report; a job has far fewer outputs
MOST_FILES = 2000
#: characters of the list as JSON text
LONGEST_LIST = 1_000_000
LONGEST_NAME = 256
MOST_NOTES, LONGEST_NOTE = 20, 120
_HEX = frozenset("0123456789abcdefABCDEF")
#: hexadecimal digits of each kind of checksum; zeros in front are left out by some
_DIGITS = {"adler32": range(1, 9), "md5sum": (32,)}
_LONGEST = {"guid": 64, "surl": 1000, "endpoint": 200}


class Lost:
    """Fields that were not kept.

    `counted` has them by the names of the interface, `notes` with the value for people.
    """

    def __init__(self) -> None:
        self.counted: list[str] = []
        self.notes: dict[str, str] = {}

    def add(self, field: str, value: Any, of: str = "") -> None:
        """Note one; `of`: the file it belongs to. Of very many only the first are noted."""
        self.counted.append(field)
        if len(self.notes) < MOST_NOTES:
            self.notes[f"{field} of {of}"[:LONGEST_NAME] if of else field] = _shown(value)


def read_outputs(value: Any, lost: Lost) -> tuple[dict[str, Any], dict[str, str]]:
    """`job_output_report` as {lfn: file}, and why the others of its files cannot be registered.

    It is an object, or a JSON text despite the older name xml. Nothing where it cannot be read, as no list never means
    "all". A file needs a size, and no checksum that is none (PanDA: Adder).
    """
    value = absent(value)
    if value is None:
        return {}, {}
    if isinstance(value, str):
        if len(value) > LONGEST_LIST or value.count("{") > MOST_FILES + 1:
            about = f"{len(value)} characters and about {value.count('{') - 1} files"
            lost.add(OUTPUTS, f"{about}; at most {LONGEST_LIST} and {MOST_FILES} are read")
            return {}, {}
        # A text that is no JSON is noted as it was sent.
        in_text = parsed(value)
        value = value if in_text is None else in_text
    if not isinstance(value, dict) or len(value) > MOST_FILES:
        lost.add(OUTPUTS, f"{len(value)} files; at most {MOST_FILES} are read" if isinstance(value, dict) else value)
        return {}, {}
    found: dict[str, Any] = {}
    unusable: dict[str, str] = {}
    for lfn, entry in value.items():
        if lfn and len(lfn) <= LONGEST_NAME and isinstance(entry, dict):
            file, why = _file(lfn, entry, lost)
            if why:
                unusable[lfn] = why
            else:
                found[lfn] = file
        elif not lfn or absent(entry) is not None:
            lost.add(OUTPUTS, entry, lfn or "a file without a name")
    return found, unusable


def _file(lfn: str, entry: Mapping[str, Any], lost: Lost) -> tuple[dict[str, Any], str]:
    """What is known of one transferred file, and why it cannot be registered; "" where it can."""
    found: dict[str, Any] = {}
    for name, longest in _LONGEST.items():
        value = absent(entry.get(name))
        if value is None:
            continue
        if isinstance(value, str) and len(value) <= longest:
            found[name] = value
        else:
            lost.add(name, value, lfn)
    size = whole(entry.get("fsize"))
    if not isinstance(size, int) or isinstance(size, bool) or not BYTES.hold(size):
        lost.add("fsize", size, lfn)
        return {}, f"fsize {_shown(size)}" if size is not None else "no fsize"
    found["fsize"] = size
    for name in _DIGITS:
        checksum = absent(entry.get(name))
        if checksum is None:
            continue
        kind = _kind_of(checksum)
        if kind is None:
            lost.add(name, checksum, lfn)
            return {}, f"{name} {_shown(checksum)}"
        found.setdefault(kind, checksum)
    return found, ""


def _kind_of(checksum: Any) -> str | None:
    """Which checksum a text is, by its length: pilots write an MD5 where an Adler-32 is meant. None: neither."""
    if not isinstance(checksum, str) or not checksum or not _HEX.issuperset(checksum):
        return None
    return next((kind for kind, allowed in _DIGITS.items() if len(checksum) in allowed), None)


def parsed(text: str) -> Any:
    """The value of a JSON text without the character NUL; None where it is no JSON, or beyond the limits."""
    try:
        value = parse_json_now(text.encode(), INNER)
    except ValueError:
        return None
    return without_nul(value) if "\\u0000" in text else value


def _shown(value: Any) -> str:
    """The beginning of a value, for a note: never all of a large one."""
    if isinstance(value, (dict, list)):
        return f"a {'list' if isinstance(value, list) else 'JSON object'} of {len(value)}"
    shown = value[:LONGEST_NOTE] if isinstance(value, str) else repr(value)
    return shown[:LONGEST_NOTE]
