"""What is known of a task parameter besides its type and range."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field


@dataclass(frozen=True)
class About:
    """Facts of one parameter.

    `reader`: the package or module that decides something by it; empty where nothing does (`kept` says why). `kept`:
    why it is taken although nothing is decided by it; it is stored with the task and shown. `unit`: of its number.
    `code`: its two letters in the text of split rules. `retry`: a retry or resubmission may change it. `live`: it may
    be changed while the task lives. `warned`: who submits it is told that nothing is done for it. `means`: what it
    says, in a few words.
    """

    reader: str = ""
    unit: str | None = None
    code: str | None = None
    retry: bool = False
    live: bool = False
    kept: str | None = None
    warned: bool = False
    means: str = ""


class TaskFields(BaseModel):
    """The base of all groups of parameters."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=False)


def rule(name: str, code: str | None, means: str, reader: str = "", *, default: Any = None, **facts: Any) -> Any:
    """Declare one rule: JSON name, letters, what it means, who reads it.

    Besides, what holds where a task says nothing.
    """
    field = Field(default, alias=name)
    field.metadata.append(About(reader, code=code, means=means, **facts))
    return field
