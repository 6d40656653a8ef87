"""`TaskParameters`: the JSON of a task checked field by field; facts of each field by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import model_validator

from services.task_definition.policy.task_parameters.about import About
from services.task_definition.policy.task_parameters.data import DataFields
from services.task_definition.policy.task_parameters.event_service import EventServiceFields
from services.task_definition.policy.task_parameters.identity import CarriedFields, WhatFields
from services.task_definition.policy.task_parameters.needs import NeedsFields
from services.task_definition.policy.task_parameters.place import PlaceFields
from services.task_definition.policy.task_parameters.points import PointFields
from services.task_definition.policy.task_parameters.splitting import AttemptFields, SplittingFields
from services.task_definition.policy.task_spec_items import Item, without_empty

_DATASETS_OF_STREAM = re.compile(r"dsFor([A-Za-z0-9_]+)")


class TaskParameters(
    CarriedFields,
    DataFields,
    SplittingFields,
    EventServiceFields,
    PointFields,
    AttemptFields,
    NeedsFields,
    PlaceFields,
    WhatFields,
):
    """All fields, those of the last base first; what holds between fields is checked in `task_spec`."""

    @model_validator(mode="before")
    @classmethod
    def _leave_out_empty(cls, value: Any) -> Any:
        """Without what is not given; dsForIN, dsForDBR, ... become the object dsFor."""
        given = without_empty(value)
        if not isinstance(given, dict):
            return given
        streams = {name: found.group(1) for name in given if (found := _DATASETS_OF_STREAM.fullmatch(str(name)))}
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

    def events_per_file(self) -> int | None:
        """nEventsPerInputFile or its other name."""
        return self.n_events_per_input_file or self.n_events_per_file


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
#: what an incremental execution may change: both, and the memory, which it resets
CHANGED_BY_INCEXEC = CHANGED_BY_RETRY | CHANGED_LIVE | {"ramCount", "ramUnit"}


def described() -> list[dict[str, str]]:
    """The table for people: name, code, type, unit, allowed, default, reader, changes."""
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
