"""The file in which a catalogue is imported.

Its shape is `{"format": "orrery-catalogue/1", "vo": "atlas", "datasets": [], "containers": []}`; `vo`: to which new
scopes in it belong.

A dataset: scope, name, state (open or frozen), attributes, `files` (lfn, size_bytes, n_events, checksum, guid,
lumi_block, first_event) and `file_series` (many alike: ``lfn`` with one ``{serial:06d}``, count, first, size_bytes,
size_spread_percent, n_events), `replicas` (storage; all files, or `files`, or the first `first_files`). A container:
scope, name, datasets. Read whole or refused whole, every problem listed.
"""

from __future__ import annotations

import re
import uuid
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from services.task_definition.data.importing.long_records import Names, checked, in_parts
from services.task_definition.data.policy.allowed_names import SCOPES, is_catalogue_name, is_scope
from shared.model.names import CATALOGUE_NAMES, bare_name
from shared.model.problems import Problem
from shared.model.steps import Steps, at_once
from shared.web.slices import freed

FORMAT = "orrery-catalogue/1"
MAX_FILES, LONGEST_VO = 5_000_000, 16
_SERIAL = re.compile(r"\{serial(:0\d+d)?\}")
_NAMESPACE = uuid.UUID("6f1c7a52-6f0e-5d0e-9a53-0d2f4a1b7c11")


def _named(allowed: Callable[[str], bool], words: str) -> AfterValidator:
    """Refuses what the field's catalogues refuse."""

    def check(name: str) -> str:
        if not allowed(name):
            raise ValueError(f"allowed: {words}")
        return name

    return AfterValidator(check)


_AS_IN_CATALOGUES = _named(is_catalogue_name, CATALOGUE_NAMES)
Name = Annotated[str, Field(min_length=1, max_length=255)]
DataName = Annotated[Name, _named(lambda name: is_catalogue_name(bare_name(name)), CATALOGUE_NAMES)]
Scope = Annotated[str, Field(min_length=1, max_length=30), _named(is_scope, SCOPES)]
Size = Annotated[int, Field(ge=0, le=2**53)]


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")
    lfn: Annotated[str, Field(min_length=1, max_length=256), _AS_IN_CATALOGUES]
    size_bytes: Size
    n_events: Size | None = None
    checksum: Annotated[str, Field(max_length=36)] | None = None
    guid: Annotated[str, Field(max_length=64)] | None = None
    lumi_block: Size | None = None
    first_event: Size | None = None


class _Series(BaseModel):
    model_config = ConfigDict(extra="forbid")
    lfn: Annotated[
        str,
        Field(min_length=1, max_length=240, pattern=r"\{serial(:0\d+d)?\}"),
        _named(lambda lfn: is_catalogue_name(_SERIAL.sub("1", lfn)), CATALOGUE_NAMES),
    ]
    count: Annotated[int, Field(ge=1, le=MAX_FILES)]
    first: Size = 1
    size_bytes: Size
    size_spread_percent: Annotated[float, Field(ge=0, le=90)] = 0
    n_events: Size | None = None
    files_per_lumi_block: Annotated[int, Field(ge=1)] | None = None


class _Replica(BaseModel):
    model_config = ConfigDict(extra="forbid")
    storage: Name
    files: list[str] | None = None
    first_files: Annotated[int, Field(ge=1)] | None = None


class _Dataset(BaseModel):
    model_config = ConfigDict(extra="forbid")
    scope: Scope
    name: DataName
    state: Literal["open", "frozen"] = "frozen"
    attributes: dict[str, Any] = {}
    files: list[_File] = []
    file_series: list[_Series] = []
    replicas: list[_Replica] = []


class _Container(BaseModel):
    model_config = ConfigDict(extra="forbid")
    scope: Scope
    name: DataName
    datasets: Annotated[list[DataName], Field(min_length=1)]


@dataclass(frozen=True)
class ImportedFile:
    """One file of an imported dataset."""

    lfn: str
    size_bytes: int
    n_events: int | None = None
    checksum: str | None = None
    guid: str | None = None
    lumi_block: int | None = None
    first_event: int | None = None


@dataclass(frozen=True)
class ImportedDataset:
    """One dataset with its files; `complete_at`: storages with all of them, `partly_at`: with some."""

    scope: str
    name: str
    state: str
    files: Sequence[ImportedFile]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    complete_at: tuple[str, ...] = ()
    partly_at: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class ImportedContainer:
    """One container and the names of its datasets in order."""

    scope: str
    name: str
    datasets: tuple[str, ...]


@dataclass(frozen=True)
class ImportedCatalogue:
    """A valid file."""

    datasets: tuple[ImportedDataset, ...]
    containers: tuple[ImportedContainer, ...]


class InvalidCatalogue(ValueError):
    """A catalogue that was refused; `problems` lists everything that is wrong with it."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(str(one) for one in problems[:20]))


def parse_catalogue(
    content: Any, *, storages: Collection[str] | None, known_datasets: Collection[str]
) -> ImportedCatalogue:
    """Check an import; raises InvalidCatalogue.

    `storages`: those of the grid (None: no grid is loaded, any name is accepted); `known_datasets`: what containers may
    name besides the datasets of the file.
    """
    return at_once(catalogue_in_steps(content, storages=storages, known_datasets=known_datasets))


def catalogue_in_steps(
    content: Any, *, storages: Collection[str] | None, known_datasets: Collection[str]
) -> Steps[ImportedCatalogue]:
    """The same, some files in each step: a large catalogue takes many seconds."""
    problems: list[Problem] = []
    if not isinstance(content, Mapping) or content.get("format") != FORMAT:
        raise InvalidCatalogue([Problem("catalogue", "", "format", f"must be an object with format {FORMAT!r}")])
    for key in sorted(set(content) - {"format", "vo", "datasets", "containers", "description"}):
        problems.append(Problem("catalogue", "", key, "unknown key; allowed: vo, datasets, containers, description"))
    datasets: dict[str, ImportedDataset] = {}
    for index, record in enumerate(_list(content, "datasets", problems)):
        parsed = yield from _dataset(index, record, storages, problems)
        if parsed is not None and parsed.name in datasets:
            problems.append(Problem("catalogue", parsed.name, "name", "is listed twice"))
        elif parsed is not None:
            datasets[parsed.name] = parsed
    if sum(len(one.files) for one in datasets.values()) > MAX_FILES:
        problems.append(Problem("catalogue", "", "datasets", f"at most {MAX_FILES} files in one import"))
    known, containers = {*datasets, *known_datasets}, []
    for index, record in enumerate(_list(content, "containers", problems)):
        containers.append((yield from _container(index, record, known, problems)))
    if problems:
        raise InvalidCatalogue(problems)
    return ImportedCatalogue(tuple(datasets.values()), tuple(one for one in containers if one is not None))


def vo_in(content: Any) -> str | None:
    """The VO that a file names; None where it names none. Raises InvalidCatalogue."""
    vo = content.get("vo") if isinstance(content, Mapping) else None
    if vo is None or (isinstance(vo, str) and 0 < len(vo) <= LONGEST_VO and is_scope(vo)):
        return vo
    shown = repr(vo)[:80]
    raise InvalidCatalogue([Problem("catalogue", "", "vo", f"{shown}: allowed: {SCOPES}, at most {LONGEST_VO}")])


def _list(content: Mapping[str, Any], key: str, problems: list[Problem]) -> list[Any]:
    value = content.get(key, [])
    if isinstance(value, list):
        return value
    problems.append(Problem("catalogue", "", key, "must be a list"))
    return []


def _key(index: int, record: Any, kind: str) -> str:
    name = record.get("name") if isinstance(record, Mapping) else None
    return name if isinstance(name, str) and name else f"{kind}.{index}"


def _dataset(
    index: int, record: Any, storages: Collection[str] | None, problems: list[Problem]
) -> Steps[ImportedDataset | None]:
    key = _key(index, record, "datasets")
    raw = yield from checked(_Dataset, key, record, _LISTS_OF_DATASET, problems)
    if raw is None:
        return None
    names, files = Names(), list[ImportedFile]()
    for one in raw.files:
        yield
        files.append(ImportedFile(**one.__dict__))
        names.add(one.lfn)
    yield from freed(raw.files)
    for series in raw.file_series:
        for file in _series(series):
            yield
            files.append(file)
            names.add(file.lfn)
    if len(names) != len(files):
        problems.append(Problem("catalogue", key, "files", "a file name is listed twice"))
    complete, partly = list[str](), dict[str, list[str]]()
    for replica in raw.replicas:
        if storages is not None and replica.storage not in storages:
            problems.append(Problem("catalogue", key, "replicas", f"{replica.storage!r} is not a storage of the grid"))
        if replica.files is None and replica.first_files is None:
            complete.append(replica.storage)
        else:
            partly[replica.storage] = yield from _copied(key, replica, files, names, problems)
    yield from names.forget()
    return ImportedDataset(raw.scope, bare_name(raw.name), raw.state, files, raw.attributes, tuple(complete), partly)


def _copied(
    key: str, replica: _Replica, files: list[ImportedFile], names: Names, problems: list[Problem]
) -> Steps[list[str]]:
    """The files that a storage has some of."""
    stated: Iterable[str] | None = replica.files
    wanted, unknown = [], set()
    for lfn in stated if stated is not None else (one.lfn for one in islice(files, replica.first_files)):
        yield
        wanted.append(lfn)
        if lfn not in names:
            unknown.add(lfn)
    for lfn in sorted(unknown):
        yield
        problems.append(Problem("catalogue", key, "replicas", f"{lfn!r} is not a file of the dataset"))
    return wanted


def _replicas(key: str, records: list[Any], field: str, problems: list[Problem]) -> Steps[list[_Replica]]:
    """Each may name all files of the dataset."""
    good = []
    for place, record in enumerate(records):
        yield
        replica = yield from checked(_Replica, key, record, {"files": in_parts(str)}, problems, f"{field}.{place}")
        if replica is not None:
            good.append(replica)
    return good


_LISTS_OF_DATASET = {"files": in_parts(_File), "file_series": in_parts(_Series), "replicas": _replicas}
_LISTS_OF_CONTAINER = {"datasets": in_parts(DataName)}


def _series(series: _Series) -> Iterator[ImportedFile]:
    """Files that differ in their number; sizes spread evenly, the same on every machine."""
    for position in range(series.count):
        lfn = series.lfn.format(serial=series.first + position)
        spread = ((position * 7919) % 101 - 50) / 50 * series.size_spread_percent / 100
        block = None if series.files_per_lumi_block is None else 1 + position // series.files_per_lumi_block
        yield ImportedFile(
            lfn,
            round(series.size_bytes * (1 + spread)),
            series.n_events,
            f"ad:{zlib.adler32(lfn.encode()):08x}",
            str(uuid.uuid5(_NAMESPACE, lfn)),
            block,
        )


def _container(
    index: int, record: Any, known: Collection[str], problems: list[Problem]
) -> Steps[ImportedContainer | None]:
    key = _key(index, record, "containers")
    raw = yield from checked(_Container, key, record, _LISTS_OF_CONTAINER, problems)
    if raw is None:
        return None
    names, unknown = [], set()
    for one in raw.datasets:
        yield
        names.append(bare_name(one))
        if names[-1] not in known:
            unknown.add(names[-1])
    for name in sorted(unknown):
        problems.append(Problem("catalogue", key, "datasets", f"{name!r} is neither in this file nor known"))
    return ImportedContainer(raw.scope, bare_name(raw.name), tuple(names))
