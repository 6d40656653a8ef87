"""What is known of a task parameter besides its type and range.

The fields of `TaskParameters` with these facts are the one table of task parameters: parsing, the schema, the text of
two-letter codes, what a retry may change and what may change while the task lives are all taken from it.
"""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from services.task_definition.policy.task_parameters.names import alias_of


@dataclass(frozen=True)
class About:
    """Facts of one parameter.

    `reader`: the module that decides something by it; empty where nothing does (`kept` says why). `kept`: why it is
    taken although nothing is decided by it; it is stored with the task and shown. `unit`: of its number. `code`: its
    two letters in the text of split rules. `retry`: a retry or resubmission may change it. `live`: it may be changed
    while the task lives. `warned`: who submits it is told that nothing is done for it.
    """

    reader: str = ""
    unit: str | None = None
    code: str | None = None
    retry: bool = False
    live: bool = False
    kept: str | None = None
    warned: bool = False


class TaskFields(BaseModel):
    """The base of all groups of fields."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=alias_of, hide_input_in_errors=False)
