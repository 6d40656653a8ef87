"""Remembers what FastAPI found out about the parameters of endpoints: each test builds the applications anew.

What it finds depends on the path, the signature and the names of the module. An endpoint whose signature has a
dependency as a default is looked at each time, as that may be an object of one application.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable
from dataclasses import fields
from typing import Any

import fastapi.dependencies.utils
import fastapi.routing
from fastapi import params
from fastapi.dependencies.models import Dependant

_analyse, _body_of = fastapi.dependencies.utils.get_dependant, fastapi.routing._get_body_field
_LISTS = [one.name for one in fields(Dependant) if one.name.endswith("_params") or one.name == "dependencies"]
#: with what it was made of, so that none of these objects is forgotten and another has its place in memory
_dependants: dict[Hashable, tuple[Dependant, Any]] = {}
_bodies: dict[Hashable, tuple[Any, Any]] = {}


def remember() -> None:
    """From now on, in this process."""
    fastapi.dependencies.utils.get_dependant = _dependant  # type: ignore[assignment]
    fastapi.routing.get_dependant = _dependant  # type: ignore[attr-defined, assignment]
    fastapi.routing._get_body_field = _body  # type: ignore[attr-defined, assignment]


def _dependant(*, path: str, call: Callable[..., Any], **more: Any) -> Dependant:
    signature = inspect.signature(call)
    taken = [*signature.parameters.values()]
    module = getattr(inspect.unwrap(call), "__globals__", None)
    if module is None or any(isinstance(one.default, params.Depends) for one in taken):
        return _analyse(path=path, call=call, **more)
    is_of = [(one.name, one.kind, _own(one.annotation), id(one.default)) for one in taken]
    key = (path, id(module), tuple(is_of), _kind(call), repr(sorted(more.items())))
    if key not in _dependants:
        _dependants[key] = _analyse(path=path, call=call, **more), (signature, module)
    found, _ = _dependants[key]
    own = {name: [*getattr(found, name)] for name in _LISTS}
    return Dependant(**{one.name: getattr(found, one.name) for one in fields(Dependant)} | own | {"call": call})


def _own(annotation: Any) -> Hashable:
    return annotation if isinstance(annotation, str) else id(annotation)


def _kind(call: Callable[..., Any]) -> tuple[bool, ...]:
    tells = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    return tuple(one(call) for one in tells)


def _body(*, body_params: list[Any], name: str, **more: Any) -> Any:
    key = (name, tuple(id(one) for one in body_params), repr(sorted(more.items())))
    if key not in _bodies:
        _bodies[key] = _body_of(body_params=body_params, name=name, **more), [*body_params]
    return _bodies[key][0]
