"""What an operator sets as a runtime parameter: checked against what the services read. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from shared.config.declared import find_parameter, is_per_vo, near_names
from shared.config.parameter import JEDI
from shared.config.typed import typed
from shared.model.problems import FieldProblem

TYPES = ("str", "int", "float", "bool", "json")
SHOWN_LENGTH = 80


_NO_CONVERSION = (
    "is not read by this version: no task is converted to the event service by itself; a task says so with "
    "esConvertible or esFraction"
)
_ALL_TASKS = "is not read by this version: what becomes of a task is told by events at once, for every task"
#: parameters of PanDA that no service reads, by their key -> why
REFUSED_SETTINGS = {
    **dict.fromkeys(
        ("AES_MAXTASKPRIORITY", "AES_MINTASKPRIORITY", "AES_EVENTPOOLSIZE", "AES_MAXPENDING"), _NO_CONVERSION
    ),
    **dict.fromkeys(("AES_NESCONSUMERS", "AES_NSITESPERJOB", "AES_MINEVENTSFORMCORE"), _NO_CONVERSION),
    "AES_MAX_NUM_JUMBO_TASKS": "is not read by this version: JUMBO_MAX_TASKS says how many tasks have jumbo jobs",
    "AES_MIN_EVENTS_PER_JUMBO_TASK": "is not read by this version: JUMBO_MIN_EVENTS_ENABLE says who has jumbo jobs",
    "AES_NUM_JUMBO_PER_TASK": "is not read by this version: JUMBO_PER_TASK says how many jumbo jobs a task has",
    **dict.fromkeys(
        (
            "USER_TASKS_MESSAGE_DRIVEN_PERCENT",
            "USER_TASKS_PUSH_STATUS_CHANGES_PERCENT",
            "PROD_TASKS_PUSH_STATUS_CHANGES_PERCENT",
        ),
        _ALL_TASKS,
    ),
}


def refused_setting(key: str) -> str | None:
    """Why a parameter of PanDA is not read; None of any other."""
    return REFUSED_SETTINGS.get(key)


@dataclass(frozen=True)
class Setting:
    """A parameter as it is stored."""

    app: str
    text: str
    kind: str


class InvalidSetting(ValueError):
    """A value that is refused; `problems` names the parameter, the value and what is allowed."""

    def __init__(self, name: str, value: str, allowed: str) -> None:
        shown = value if len(value) <= SHOWN_LENGTH else f"{value[:SHOWN_LENGTH]}..."
        self.problems = (FieldProblem(name, repr(shown) if shown else "", allowed),)
        super().__init__(str(self.problems[0]))


def setting_of(
    component: str, key: str, value: Any, kind: str | None, app: str | None, *, new: bool, vo: str | None = None
) -> Setting:
    """The row to store; raises InvalidSetting.

    A known parameter has its own type and range, whatever type the caller states; an unknown one is taken only if it is
    meant to be `new`.
    """
    name = f"{component}.{key}"
    try:
        text = as_text(value)
    except orjson.JSONEncodeError as error:
        raise InvalidSetting(name, str(value), str(error)) from None
    known = find_parameter(component, key)
    if known is not None and not new:
        if app not in (None, known.app):
            raise InvalidSetting("app", str(app), f"{name} is read with app {known.app}")
        if vo and not is_per_vo(known):
            raise InvalidSetting("vo", vo, f"{name} is read for all VOs together; allowed: none")
        try:
            known.parsed(text)
        except ValueError as error:
            raise InvalidSetting(name, text, str(error)) from None
        return Setting(known.app, text, known.kind)
    refused = None if new else refused_setting(key)
    if refused is not None:
        raise InvalidSetting(name, "", refused)
    if not new:
        near = near_names(component, key)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise InvalidSetting(name, "", f"no service reads it{hint} (new: store it all the same, for a plugin)")
    kind = kind or type_of(value)
    if kind not in TYPES:
        raise InvalidSetting("type", kind, f"allowed: {', '.join(TYPES)}")
    try:
        typed(text, kind)
    except ValueError as error:
        raise InvalidSetting(name, text, str(error)) from None
    return Setting(app or JEDI, text, kind)


def app_of(component: str, key: str) -> str:
    """The application that reads a parameter."""
    known = find_parameter(component, key)
    return JEDI if known is None else known.app


def as_text(value: Any) -> str:
    """A value as it is stored. Raises JSONEncodeError."""
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def type_of(value: Any) -> str:
    """The type of a JSON value."""
    names: dict[type, str] = {bool: "bool", int: "int", float: "float", str: "str"}
    return names.get(type(value), "json")
