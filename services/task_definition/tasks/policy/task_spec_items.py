"""One item of ``jobParameters`` (and ``log``): a constant text, or a template with a placeholder.

Dataset attributes (nosplit, repeat, ratio, ...) may be written as fields or in the comma list ``attributes``; they end
in one dictionary with the long names of `ATTRIBUTE_NAMES`.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from services.task_definition.tasks.policy.preprocessing import is_unknown_yet
from shared.model.dataset_types import FINAL_OUTPUT_TYPES
from shared.model.expression import InvalidExpression, parse_expression
from shared.model.names import bare_name
from shared.model.outputs_by_expression import is_by_expression
from shared.task.types import Flag, LongText, at_most, comma_list

ParamType = Literal["input", "pseudo_input", "output", "log", "number"]
PLACEHOLDER = re.compile(r"\$\{([A-Za-z0-9_]+)")
SERIAL_NUMBER = re.compile(r"\$\{SN(/P)?\}")
NUMBERS = ("SN", "SEQNUMBER", "RNDMSEED", "MAXEVENTS", "SKIPEVENTS", "FIRSTEVENT", "ATTEMPTNR")

#: short or other spellings of dataset attributes -> the name under which they are stored
ATTRIBUTE_NAMES = {
    "nosplit": "nosplit", "repeat": "repeat", "manytime": "manytime", "ratio": "ratio",
    "er": "eventRatio", "eventRatio": "eventRatio", "np": "nFilesPerJob", "nFilesPerJob": "nFilesPerJob",
    "rd": "random", "random": "random", "ru": "reusable", "reusable": "reusable",
    "ic": "indexConsistent", "indexConsistent": "indexConsistent", "of": "offset", "offset": "offset",
    "cc": "check", "check": "check", "ud": "usedup", "usedup": "usedup",
    "an": "allowNoOutput", "allowNoOutput": "allowNoOutput", "mo": "mergeOnly", "mergeOnly": "mergeOnly",
    "tr": "transient", "transient": "transient", "nr": "num_records", "num_records": "num_records",
    "ps": "pseudo", "pseudo": "pseudo", "os": "objectstore", "objectstore": "objectstore",
    "ns": "nostaging", "nostaging": "nostaging", "cvmfs": "cvmfs", "st": "cvmfs",
}  # fmt: skip
_NO_MOVE = "is not supported by this version: input is moved to where its job runs"
_NOT_MOVED = f"{_NO_MOVE}, and how a job reads files that are not moved is not stated anywhere"
#: attributes that this version does not carry out -> why
REFUSED_ATTRIBUTES = {
    "cvmfs": _NO_MOVE,
    "nostaging": _NOT_MOVED,
    "objectstore": "is a token of outputs that jobs of the event service list, and they list their log alone",
    "pseudo": "is not supported by this version: give noInput",
}
#: attributes of some items only -> the param_type of those
ATTRIBUTES_OF: dict[str, tuple[str, ...]] = {
    "nosplit": ("input",),
    "repeat": ("input",),
    "manytime": ("input",),
    "ratio": ("input",),
    "eventRatio": ("input",),
    "nFilesPerJob": ("input",),
    "random": ("input",),
    "reusable": ("input",),
    "usedup": ("input",),
    "check": ("input",),
    "indexConsistent": ("input",),
    "allowNoOutput": FINAL_OUTPUT_TYPES,
    "mergeOnly": FINAL_OUTPUT_TYPES,
    "transient": FINAL_OUTPUT_TYPES,
    "num_records": ("pseudo_input",),
}
#: file records of a pseudo input: as many as nFiles may say
MOST_RECORDS = 10**9
#: what only a template says
_OF_TEMPLATES = frozenset({"param_type", "dataset", "container", "token", "destination", "expand"})
_NUMERIC = {"ratio", "eventRatio", "nFilesPerJob", "offset", "num_records"}


def without_empty(value: Any) -> Any:
    """Clients send null or "" for "not given"."""
    return {name: one for name, one in value.items() if one not in (None, "")} if isinstance(value, dict) else value


Text16 = Annotated[str, Field(max_length=16, strict=True)]
Text64 = Annotated[str, Field(max_length=64, strict=True)]
Text128 = Annotated[str, Field(max_length=128, strict=True)]
Text256 = Annotated[str, Field(max_length=256, strict=True)]


def _expressions(values: list[str]) -> list[str]:
    for value in values:
        try:
            parse_expression(value)
        except InvalidExpression as error:
            raise ValueError(str(error)) from error
    return values


#: expressions about file names, and items that are logs
MOST_EXPRESSIONS, MOST_LOGS = 100, 100
FileName = Annotated[str, Field(min_length=1, max_length=256)]
Expressions = Annotated[
    list[LongText], BeforeValidator(comma_list), AfterValidator(_expressions), at_most(MOST_EXPRESSIONS)
]


def _of_prepro(value: Any) -> Any:
    """The name of a list of files that the pre-processing job returns, as a list; anything else as it is."""
    return [value] if is_unknown_yet(value) else value


_CAMEL = {
    "event_ratio": "eventRatio",
    "n_files_per_job": "nFilesPerJob",
    "index_consistent": "indexConsistent",
    "allow_no_output": "allowNoOutput",
    "merge_only": "mergeOnly",
}


class Item(BaseModel):
    """One item as submitted.

    `expand` is how every container is read: its datasets take the place of its name. `consolidate`, the name of a
    container for the listed datasets, is taken with a warning: no container is made.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=lambda name: _CAMEL.get(name, name))

    type: Literal["constant", "template"]
    param_type: ParamType | None = None
    value: LongText = ""
    dataset: LongText | None = None
    container: Annotated[str, Field(max_length=132, strict=True)] | None = None
    token: Annotated[str, Field(max_length=100, strict=True)] | None = None
    destination: Annotated[str, Field(max_length=60, strict=True)] | None = None
    offset: Annotated[int, Field(ge=0, le=10**12, strict=True)] | None = None
    hidden: Flag = False
    padding: Flag = True
    attributes: Annotated[str, Field(max_length=1000)] | None = None
    ratio: Annotated[float, Field(gt=0, le=10**6, strict=True, allow_inf_nan=False)] | None = None
    event_ratio: Annotated[float, Field(gt=0, le=10**6, strict=True, allow_inf_nan=False)] | None = None
    n_files_per_job: Annotated[int, Field(ge=1, le=10**6, strict=True)] | None = None
    random: Flag = False
    reusable: Flag = False
    index_consistent: Flag = False
    check: Flag = False
    usedup: Flag = False
    allow_no_output: Flag = False
    merge_only: Flag = False
    transient: Flag = False
    num_records: Annotated[int, Field(ge=1, le=MOST_RECORDS, strict=True)] | None = None
    pseudo: Flag = False
    include: Expressions | None = None
    exclude: Expressions | None = None
    files: Annotated[list[FileName] | None, BeforeValidator(_of_prepro)] = None
    expand: Flag = False
    consolidate: Text256 | None = None
    es_only: Flag = False

    @model_validator(mode="before")
    @classmethod
    def _leave_out_empty(cls, value: Any) -> Any:
        """Of a constant only its text counts: the field's client repeats what an input says (pathena --trf)."""
        given = without_empty(value)
        if isinstance(given, dict) and given.get("type") == "constant":
            return {name: one for name, one in given.items() if name not in _OF_TEMPLATES}
        return given

    def datasets(self) -> list[str]:
        """The names it lists, without scope and without the slash that marks a container."""
        return [bare_name(part) for part in (self.dataset or "").split(",") if part.strip()]

    def stream(self, otherwise: str) -> str:
        """The name of its placeholder."""
        found = PLACEHOLDER.search(self.value)
        return found.group(1) if found else otherwise

    @property
    def is_by_expression(self) -> bool:
        """Whether its files are those whose names match an expression (regex|...)."""
        return is_by_expression(self.value)

    def file_name_template(self) -> str:
        """Of an output: what follows the last ``=`` in its value; all of an expression (regex|...)."""
        if self.is_by_expression:
            return self.value
        return self.value.rpartition("=")[2].strip().strip("\"'")

    @property
    def records(self) -> int | None:
        """Of a pseudo input: its file records, one for each job (num_records); None where that is not said."""
        if self.param_type != "pseudo_input":
            return None
        try:
            found: int | None = self.dataset_attributes().get("num_records")
        except ValueError:
            return None  # told where attributes are checked
        return found

    def dataset_attributes(self) -> dict[str, Any]:
        """Every attribute under its long name; numbers as numbers, the others true. Raises ValueError."""
        found: dict[str, Any] = {}
        for part in (self.attributes or "").split(","):
            name, _, value = part.strip().partition("=")
            if not name:
                continue
            if name not in ATTRIBUTE_NAMES:
                raise ValueError(f"unknown attribute {name!r}; allowed: {', '.join(sorted(ATTRIBUTE_NAMES))}")
            known = ATTRIBUTE_NAMES[name]
            found[known] = _attribute_number(name, value) if known in _NUMERIC else (value or True)
        written = {
            "ratio": self.ratio, "eventRatio": self.event_ratio, "nFilesPerJob": self.n_files_per_job,
            "random": self.random, "reusable": self.reusable, "indexConsistent": self.index_consistent,
            "check": self.check, "usedup": self.usedup, "allowNoOutput": self.allow_no_output,
            "mergeOnly": self.merge_only, "transient": self.transient, "num_records": self.num_records,
            "pseudo": self.pseudo, "offset": self.offset,
        }  # fmt: skip
        found.update({name: value for name, value in written.items() if value not in (None, False)})
        for name, value in found.items():
            if name in REFUSED_ATTRIBUTES:
                raise ValueError(f"attribute {name} {REFUSED_ATTRIBUTES[name]}")
            if name == "num_records" and not (isinstance(value, int) and 1 <= value <= MOST_RECORDS):
                raise ValueError(f"attribute num_records: allowed: a whole number from 1 to {MOST_RECORDS}")
            allowed = ATTRIBUTES_OF.get(name)
            if allowed is not None and (self.param_type or "log") not in allowed:
                raise ValueError(f"attribute {name}: allowed: with param_type {' or '.join(allowed)} only")
        return found


def _attribute_number(name: str, value: str) -> float | int:
    try:
        number = float(value)
    except ValueError:
        raise ValueError(f"attribute {name} = {value!r}: allowed: a number") from None
    if not 0 <= number < 10**12:
        raise ValueError(f"attribute {name} = {value!r}: allowed: zero or more")
    return int(number) if number == int(number) else number
