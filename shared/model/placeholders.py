"""Decorators of placeholders in job parameters, and the arithmetic of /M (JEDI: task parameters).

`/L` (`/S`, `/A`), `/T`, `/E` and `/P` write names and numbers in another form, `/F` names the file that lists them,
`/M[formula]` computes, with `#` for the value. Submission checks what job generation fills in.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator

_PLACEHOLDER = re.compile(r"\$\{([^${}/]+)(?:/([^${}]*))?\}")
_UNCLOSED = re.compile(r"\$\{[^{}]*$")
#: parts of a command line for jobs of the event service only, and those that say how its merge jobs are run
OF_EVENT_SERVICE = r"<PANDA_ES_ONLY>.*?</PANDA_ES_ONLY>|<PANDA_ESMERGE_\w+>.*?</PANDA_ESMERGE_\w+>"
_EVENT_SERVICE = re.compile(OF_EVENT_SERVICE, re.DOTALL)
_WRITTEN = re.compile(r"[LSATEP/]*")
_FORMULA = re.compile(r"M\[([^\]]*)\]")
_SYMBOLS = re.compile(r"[0-9#+\-*/%(). ]{1,100}")
_OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip
_VALUE = "value"
ALLOWED_FORMULA = "allowed: numbers and # with + - * / // % and brackets"
#: placeholders that the field has and that no job of this version has a value for
WITHOUT_VALUE = {
    "SOURCENAME": "${SOURCENAME} is a name before it is changed, and files of this version are not renamed",
    "MAXSERIALNR": "${MAXSERIALNR} is the end of serial numbers, and those of this version have none",
}


def formula_of(decorator: str) -> str | None:
    """The formula of `/M[formula]`; None for any other decorator."""
    found = _FORMULA.fullmatch(decorator)
    return found.group(1) if found else None


def computed(formula: str, value: float) -> str:
    """The formula with `value` in place of `#`. A whole result has no fraction. Raises ValueError.

    Examples: "#*10+1" of 12 is "121", "#/4" of 6 is "1.5", "#/3" of 6 is "2". That a whole result of a division is
    written without fraction is the choice taken here: the payload mostly wants a count.
    """
    if not _SYMBOLS.fullmatch(formula):
        raise ValueError(f"formula {formula!r}: {ALLOWED_FORMULA}")
    try:
        tree = ast.parse(formula.replace("#", f"({_VALUE})").strip(), mode="eval")
        result = _result(tree.body, value)
        whole = int(result)
    except (SyntaxError, TypeError, OverflowError, RecursionError):
        raise ValueError(f"formula {formula!r}: {ALLOWED_FORMULA}") from None
    except ZeroDivisionError:
        raise ValueError(f"formula {formula!r} divides {value:g} by zero") from None
    return str(whole) if result == whole else str(result)


def _result(node: ast.expr, value: float) -> float:
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_result(node.left, value), _result(node.right, value))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.UAdd | ast.USub):
        number = _result(node.operand, value)
        return number if isinstance(node.op, ast.UAdd) else -number
    if isinstance(node, ast.Name) and node.id == _VALUE:
        return value
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return node.value
    raise TypeError(type(node).__name__)


def unusable_placeholders(text: str) -> Iterator[str]:
    """Why placeholders of a text cannot be filled in, each with its name; nothing for those that can."""
    text = _EVENT_SERVICE.sub("", text)
    if unclosed := _UNCLOSED.search(text):
        yield f"{unclosed.group()[:60]}: has no closing bracket"
    for found in _PLACEHOLDER.finditer(text):
        whole, name, decorator = found.group(0), found.group(1), found.group(2) or ""
        formula = formula_of(decorator)
        if name in WITHOUT_VALUE:
            yield WITHOUT_VALUE[name]
        elif formula is not None:
            try:
                computed(formula, 1)
            except ValueError as error:
                if "by zero" not in str(error):  # that depends on the value
                    yield f"{whole}: {error}"
        elif decorator == "F":
            if "," in name or "[" in name:
                yield f"{whole}: allowed: one whole input, such as ${{IN/F}}"
        elif not _WRITTEN.fullmatch(decorator):
            yield f"{whole}: unknown decorator; allowed: /L, /S, /A, /T, /E, /P, /F, /M[formula with #]"
