"""What a Requirements expression may be: what it can cost is known from its length (SAM-Grid).

The language of ClassAds has records whose attributes name each other twice, strings that grow at each step and patterns
that backtrack: a short text of it can hold its process for seconds. What is allowed here looks at each of its words
once. The text is read before the library sees it, whenever it is asked, also one that was stored long ago.
"""

from __future__ import annotations

import re
from functools import lru_cache

MOST_CHARACTERS = 2000
#: names, values and operators
MOST_TERMS = 500
#: brackets in brackets, choices (? :), and signs before signs
DEEPEST = 20
#: functions whose time and result are bounded by what they are given
FUNCTIONS = (
    "member", "identicalMember", "size", "substr", "strcmp", "stricmp", "toLower", "toUpper", "int", "real", "string",
    "bool", "floor", "ceiling", "round", "ifThenElse", "min", "max", "sum", "avg", "isUndefined", "isError", "isString",
    "isInteger", "isReal", "isBoolean", "isList", "stringListMember", "stringListIMember",
)  # fmt: skip
#: with the two comparisons that are words
_BEFORE_BRACKETS = frozenset({"is", "isnt", *(one.lower() for one in FUNCTIONS)})
#: an expression that asks for another, or for itself, is asked again and again
_OTHERS = "requirements"
_TERM = re.compile(
    r'(?P<text>"(?:[^"\\]|\\.)*+")|(?P<name>[A-Za-z_][A-Za-z0-9_]*+)|(?P<number>\.?\d[\w.]*+(?:(?<=[eE])[+-]\d++)?)'
    r"|(?P<open>[({])|(?P<close>[)}])|=\?=|=!=|[=!<>]=|<<|>>>?|&&|\|\||[-+*%<>!?:.,&|^~]|/(?![/*])",
    re.DOTALL,
)
_SIGNS = frozenset("!-+~")
_BLANK = re.compile(r"\s*+")


@lru_cache(maxsize=4096)
def problem_of(text: str) -> str | None:
    """Why an expression is not allowed, and what is; None if it is. It may still be none of the library's."""
    if len(text) > MOST_CHARACTERS:
        return f"{len(text)} characters are not allowed; allowed: at most {MOST_CHARACTERS}"
    place, name = _BLANK.match(text).end(), ""  # type: ignore[union-attr]
    n_terms = depth = deepest = signs = 0
    while place < len(text):
        term = _TERM.match(text, place)
        if term is None:
            return (
                f"{text[place : place + 10]!r} is not allowed; allowed: comparisons of names, numbers and texts in "
                "double quotes, with brackets, lists in {} and functions; no records, comments or quoted names"
            )
        if term["open"] == "(" and name and name.lower() not in _BEFORE_BRACKETS:
            return (
                f"function {name} is not allowed, as nothing bounds its time; allowed: comparisons and the functions "
                + ", ".join(FUNCTIONS)
            )
        name = term["name"] or ""
        if name.lower() == _OTHERS:
            return f"{name} is not allowed as a name in an expression; allowed: other attributes of site and job"
        n_terms += 1
        depth += bool(term["open"]) + (term[0] == "?") - bool(term["close"])
        signs = signs + 1 if term[0] in _SIGNS else 0
        deepest = max(deepest, depth + signs)
        place = _BLANK.match(text, term.end()).end()  # type: ignore[union-attr]
    if n_terms > MOST_TERMS:
        return f"{n_terms} names, values and operators are not allowed; allowed: at most {MOST_TERMS}"
    if deepest > DEEPEST:
        return f"{deepest} brackets, choices or signs in each other are not allowed; allowed: at most {DEEPEST}"
    return None
