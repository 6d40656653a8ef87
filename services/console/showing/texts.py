"""Filters of templates: what others wrote, times, sizes and numbers, as people read them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import orjson
from jinja2 import pass_context
from jinja2.runtime import Context
from markupsafe import Markup, escape

from shared.model.visible_text import visible

#: longer texts are cut in lists
SHORT, LONG = 160, 20_000
#: larger ones are not exact
_WHOLE = 1e15
NEAREST_MISS = "nearest miss: "
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
#: a sign beside the word of a state, so that its colour is never all that tells it
_GOOD, _BAD, _WAITS, _RUNS, _OVER = "good", "bad", "waits", "runs", "over"
_SIGNS = {_GOOD: "✓", _BAD: "✗", _WAITS: "○", _RUNS: "▶", _OVER: "■"}
_KIND_OF = {
    **dict.fromkeys(("done", "finished"), _GOOD),
    **dict.fromkeys(("failed", "broken", "exhausted", "tobroken"), _BAD),
    **dict.fromkeys(
        ("pending", "throttled", "paused", "staging", "holding", "waiting", "assigned", "activated"), _WAITS
    ),
    **dict.fromkeys(("aborted", "aborting", "toabort", "closed", "cancelled", "finishing"), _OVER),
}


def own(value: Any, length: int = LONG) -> Markup:
    """What somebody wrote: as text, with a direction of its own, cut where it is too long.

    Marks that are not seen are written as escapes.
    """
    if value is None or value == "":
        return Markup("")
    text = visible(str(value)[: length + 1])
    shown = text if len(text) <= length else f"{text[:length]}…"
    return Markup("<bdi>{}</bdi>").format(shown)


def short(value: Any) -> Markup:
    """The same for lists."""
    return own(value, SHORT)


def says(value: Any) -> Markup:
    """What a task says, for lists: the nearest miss first, which stands at the end."""
    before, mark, miss = str(value or "").partition(NEAREST_MISS)
    return short(f"{mark}{miss}; {before.rstrip('; ')}" if miss and before else value)


def lines(value: Any) -> str:
    """A text of several lines, for `pre`."""
    return visible(str(value or "")[:LONG], lines=True)


def end(value: Any) -> str:
    """The end of a text of several lines, for `pre`."""
    return lines(str(value or "")[-LONG:])


def state(value: Any) -> Markup:
    """The word of a state with a sign and a class for its colour. Example: ✓ done."""
    word = str(value or "")
    kind = _KIND_OF.get(word, _RUNS)
    return Markup('<span class="state {}"><span aria-hidden="true">{}</span> {}</span>').format(
        kind, _SIGNS[kind], visible(word)
    )


def number(value: Any) -> str:
    """1234567 -> 1 234 567, with narrow spaces; what is no number is empty."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    if isinstance(value, float) and value.is_integer() and abs(value) < _WHOLE:
        value = int(value)
    return f"{value:,}".replace(",", "\u202f") if isinstance(value, int) else f"{value:.4g}"


def size(value: Any) -> str:
    """5963776 -> 6.0 MB; decimal units."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    amount = float(value)
    for unit in _UNITS:
        if abs(amount) < 1000 or unit == _UNITS[-1]:
            break
        amount /= 1000
    return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.3g} {unit}"


def duration(seconds: float) -> str:
    """90 -> 90 s, 5400 -> 90 min, 200000 -> 2.3 d; whole up to two units of the next."""
    for unit, length, most in (("s", 1.0, 120.0), ("min", 60.0, 7200.0), ("h", 3600.0, 172_800.0)):
        if seconds < most:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds / 86400:.0f} d" if seconds >= 864000 else f"{seconds / 86400:.1f} d"


def parsed(value: Any) -> datetime | None:
    """A time as the API writes it, or a time; UTC where it has no zone."""
    if isinstance(value, datetime):
        return value
    try:
        found = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def absolute(value: datetime) -> str:
    """2026-11-27 10:04:05 UTC."""
    return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def relative(value: datetime, now: datetime) -> str:
    """5 min ago, in 20 min."""
    seconds = (now - value).total_seconds()
    if abs(seconds) < 1:
        return "now"
    return f"{duration(seconds)} ago" if seconds > 0 else f"in {duration(-seconds)}"


@pass_context
def moment(context: Context, value: Any) -> Markup:
    """A time with its zone, and how long ago that is."""
    found = parsed(value) if value else None
    if found is None:
        return Markup("")
    return Markup('<time datetime="{}">{} <small>({})</small></time>').format(
        found.isoformat(), absolute(found), relative(found, context["now"])
    )


@pass_context
def ago(context: Context, value: Any) -> Markup:
    """How long ago a time is; the time itself for who points at it, and for machines."""
    found = parsed(value) if value else None
    if found is None:
        return Markup("")
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        found.isoformat(), absolute(found), relative(found, context["now"])
    )


def word(value: Any) -> str:
    """A part of an address: everything but letters and digits is written as %XX."""
    return quote(str(value), safe="")


def facts(value: Any) -> Markup:
    """Numbers and texts of a fact: lists with commas, objects as name: value."""
    if isinstance(value, Mapping):
        return Markup(", ").join(Markup("{}: {}").format(own(name), facts(one)) for name, one in value.items())
    if isinstance(value, list | tuple):
        return Markup(", ").join(facts(one) for one in value)
    if isinstance(value, bool):
        return Markup("yes") if value else Markup("no")
    if isinstance(value, int | float):
        return escape(number(value))
    return own(value, 2000)


def pretty(value: Any) -> str:
    """JSON on several lines, for `pre`."""
    return lines(orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS, default=str).decode())


_ALL = (own, short, says, lines, end, pretty, state, number, size, duration, moment, ago, word, facts)
FILTERS = {one.__name__: one for one in _ALL}
