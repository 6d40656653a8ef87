"""What the word that is being written into a filter may become, from what there is."""

from __future__ import annotations

from starlette.routing import Route

from services.console.api.visits import Console, Visit
from services.console.asking import Away, Refused
from services.console.policy.filters import JOBS, TASKS, Begun, Word, begun_in, quoted
from services.console.showing.pages import Page

LISTS = {"tasks": TASKS, "jobs": JOBS}
MOST = 20
SPANS_OFFERED = ("15m", "1h", "6h", "1d", "7d")


def routes(console: Console) -> list[Route]:
    return [console.page("suggestions", suggestions, ("of", "q"))]


async def suggestions(visit: Visit) -> Page:
    """Give whole filters, as a browser offers them while one is typed."""
    of, text = visit.word("of"), visit.request.query_params.get("q", "")
    if of not in LISTS:
        raise Refused(f"of: {of[:40]!r}: allowed: {', '.join(LISTS)}")
    begun, words = begun_in(text), LISTS[of]
    if not begun.has_name:
        found = [f"{begun.before}{name}{one.sign}" for name, one in words.items() if name.startswith(begun.name)]
    else:
        found = [f"{begun.before}{quoted(one)}" for one in await _values(visit, begun, words.get(begun.name))]
    return Page("suggestions.html", "Suggestions", f"orrery {of}", {"suggestions": found[:MOST]})


async def _values(visit: Visit, begun: Begun, word: Word | None) -> list[str]:
    """Words of ours, or names that there are; none where nobody can be asked now."""
    if word is None:
        return []
    if word.sign == ">":
        return [one for one in SPANS_OFFERED if one.startswith(begun.value)]
    if word.choices:
        return [one for one in word.choices if one.startswith(begun.value)]
    try:
        if word.parameter in ("user_name", "vo"):
            found = await visit.api.get("task/names", field=word.parameter, start=begun.value, limit=MOST)
            return list(found)
        if word.parameter == "queue":
            return list(await visit.api.get("grid/names", part=begun.value, limit=MOST))
    except (Refused, Away):
        return []
    return []
