"""`TaskParameters`: the JSON of a task checked field by field; facts of each field by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, get_args

import orjson
from pydantic import model_validator

from services.task_definition.tasks.policy.task_parameters.identity import CarriedFields, WhatFields
from services.task_definition.tasks.policy.task_parameters.needs import NeedsFields
from services.task_definition.tasks.policy.task_parameters.work import WorkFields
from services.task_definition.tasks.policy.task_spec_items import Item, without_empty
from shared.task.about import About
from shared.task.rules import FormRules, StatedRules
from shared.task.stored import name_of

_DATASETS_OF_STREAM = re.compile(r"dsFor([A-Za-z0-9_]+)")
_OTHER_NAMES = {"forceStaged": name_of("copies_to_scratch")}


def stream_of(name: str) -> str | None:
    """IN of dsForIN; None where it is another name."""
    found = _DATASETS_OF_STREAM.fullmatch(name)
    return found.group(1) if found else None


def name_in_form(name: str) -> str:
    """The parameter that a name of the JSON is read as: dsFor for dsForIN, useLocalIO for forceStaged."""
    return _OTHER_NAMES.get(name, name) if stream_of(name) is None else "dsFor"


class TaskParameters(CarriedFields, FormRules, WorkFields, NeedsFields, StatedRules, WhatFields):
    """All fields, those of the last base first; what holds between fields is checked in `task_spec`."""

    @model_validator(mode="before")
    @classmethod
    def _leave_out_empty(cls, value: Any) -> Any:
        """Without what is not given; dsForIN, dsForDBR, ... become the object dsFor, forceStaged is useLocalIO."""
        given = without_empty(value)
        if not isinstance(given, dict):
            return given
        given |= {name: given[other] for other, name in _OTHER_NAMES.items() if other in given}
        streams = {name: stream for name in given if (stream := stream_of(str(name))) is not None}
        if not streams:
            return given
        rest = {name: one for name, one in given.items() if name not in streams}
        return {**rest, "dsFor": {stream: given[name] for name, stream in streams.items()}}

    def logs(self) -> list[Item]:
        """The log items, as a list."""
        return self.log if isinstance(self.log, list) else [] if self.log is None else [self.log]

    def named_logs(self) -> list[tuple[str, Item]]:
        """Every item of a log with its place in the JSON: log, log.0, ..., log_merge."""
        named = [(f"log.{n}" if isinstance(self.log, list) else "log", item) for n, item in enumerate(self.logs())]
        return named if self.log_merge is None else [*named, ("log_merge", self.log_merge)]

    def granularity(self) -> int | None:
        """Events per range for jobs of a dynamic number of events: minGranularity, nEventsPerRange."""
        return self.min_granularity or self.n_events_per_range

    def stated_architecture(self) -> str | None:
        """The architecture as a text, also where it was sent as an object."""
        stated = self.architecture
        return orjson.dumps(stated).decode() if isinstance(stated, dict) else stated

    def events_per_file(self) -> int | None:
        """nEventsPerInputFile or its other name."""
        return self.n_events_per_input_file or self.n_events_per_file


def json_name(attribute: str) -> str:
    """The name of a parameter as clients write it."""
    return TaskParameters.model_fields[attribute].alias or attribute


def _facts() -> dict[str, About]:
    found = {}
    for name, field in TaskParameters.model_fields.items():
        [about] = [one for one in field.metadata if isinstance(one, About)]
        found[field.alias or name] = about
    return found


#: JSON name -> what is known of it
FACTS: Mapping[str, About] = _facts()
#: what a retry or resubmission may change (JEDI: Task retry and resubmission)
CHANGED_BY_RETRY = frozenset(name for name, about in FACTS.items() if about.retry)
#: what may change while the task lives
CHANGED_LIVE = frozenset(name for name, about in FACTS.items() if about.live)
#: what the command retry may change besides what a resubmission changes: all that may change live, and the memory,
#: which both reset (PanDA client, pbook retry)
CHANGED_BY_COMMAND = CHANGED_BY_RETRY | CHANGED_LIVE | {"ramCount", "ramUnit"}


#: what is told of an input whose datasets are to be one (PanDA client: --notExpandInDS)
_NOT_CONSOLIDATED = (
    "is taken and nothing is done for it: containers are expanded, and a job reads files of one of their datasets"
)


def warnings_of(given: TaskParameters) -> list[str]:
    """What a task says for which nothing is done, with the reason, for who submits it.

    Example: ddmBackEnd "rucio" is told as "ddmBackEnd is taken and nothing is done for it: the catalogue of a VO is
    set by its operators".
    """
    told = [
        f"{field.alias or name} is taken and nothing is done for it: {FACTS[field.alias or name].kept}"
        for name, field in TaskParameters.model_fields.items()
        if FACTS[field.alias or name].warned and getattr(given, name) not in (None, False)
    ]
    consolidated = [item.dataset for item in given.job_parameters if item.consolidate and item.type == "template"]
    return told + [f"consolidate of {dataset} {_NOT_CONSOLIDATED}" for dataset in dict.fromkeys(consolidated)]


def described() -> list[dict[str, str]]:
    """The table for people: name, code, type, unit, allowed, default, changes, reader, meaning."""
    schema = TaskParameters.model_json_schema(by_alias=True)
    rows = []
    for name, field in TaskParameters.model_fields.items():
        key = field.alias or name
        about, [kind, allowed] = FACTS[key], _type_in_words(schema["properties"][key])
        changes = [word for word, may in (("retry", about.retry), ("live", about.live)) if may]
        default = "needed" if field.is_required() else "" if field.default is None else str(field.default).lower()
        rows.append(
            {
                "name": key,
                "code": about.code or "",
                "type": kind,
                "unit": about.unit or "",
                "allowed": allowed,
                "default": default,
                "changes": ", ".join(changes) or "never",
                "reader": about.reader or f"nobody: {about.kept}",
                "means": about.means,
            }
        )
    return rows


def _type_in_words(schema: Mapping[str, Any]) -> tuple[str, str]:
    """The type of a value and its range, from its JSON schema."""
    kinds = [one for one in schema.get("anyOf", [schema]) if one.get("type") != "null"]
    words, allowed = [], []
    for one in kinds:
        words.append(str(one.get("type") or one.get("$ref", "object").rpartition("/")[2]))
        if "enum" in one or "const" in one:
            allowed.append(", ".join(str(value) or '""' for value in one.get("enum", [one.get("const")])))
        low, high, longest = one.get("minimum"), one.get("maximum"), one.get("maxLength", one.get("maxItems"))
        if low is not None and high is not None:
            allowed.append(f"{low:g} to {high:g}")
        elif longest is not None:
            allowed.append(f"at most {longest}")
    return " or ".join(dict.fromkeys(words)), "; ".join(allowed)


def known_fields() -> frozenset[str]:
    """Every field name as written in the JSON."""
    return frozenset(FACTS)


def _is_of(annotation: Any, kind: type) -> bool:
    return annotation is kind or any(_is_of(one, kind) for one in get_args(annotation))


#: parameters that are numbers and no texts, by their name in the JSON -> the type of the number
_NUMBERS = {
    field.alias or name: int if _is_of(field.annotation, int) else float
    for name, field in TaskParameters.model_fields.items()
    if (_is_of(field.annotation, int) or _is_of(field.annotation, float))
    and not _is_of(field.annotation, str)
    and not any(_is_of(field.annotation, kind) for kind in (bool, list, dict))
}


def with_numbers(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON of a task with numbers in place of texts that say one, as the field's clients write them.

    Example: {"nFilesPerJob": "2", "goal": "99.5"} is {"nFilesPerJob": 2, "goal": 99.5}; "2.5" files stay a text. A
    whole number with a point (pbook retry --nGBPerJob 2 sends 2.0) is a whole number.
    """
    return {name: _number(value, _NUMBERS[name]) if name in _NUMBERS else value for name, value in parameters.items()}


def _number(value: Any, kind: type[int] | type[float]) -> Any:
    if kind is int and isinstance(value, float) and value.is_integer():
        return int(value)
    pattern = r"[+-]?\d{1,15}" if kind is int else r"[+-]?\d{1,15}(\.\d{1,15})?"
    return kind(value) if isinstance(value, str) and re.fullmatch(pattern, value.strip(), re.ASCII) else value
