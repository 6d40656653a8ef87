"""Compares what came out of a task with what the field's server made of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from services.job_generation.specification.job_fields import NOTHING
from services.task_definition.tasks.policy.task_spec_items import Item
from tests.handlers.field.carrying import Came
from tests.handlers.field.corpus import HERE, SITE, Case

#: the numbers of ours in names of datasets, of the field's in those of containers
_NUMBERS = re.compile(r"(\.\d+)+$")
#: the library that build jobs make: its name is Orrery's own
_LIBRARY = re.compile(r"\S*\.lib\.[\w.]*tgz|\S*\.lib\._\S*?tgz")
_STEPS = re.compile(r"<MULTI_STEP_EXEC>.*", re.DOTALL)
#: what a payload has around it: the field writes them behind the command line, the pilot reads them from the job
STEPS = ("preprocess", "coprocess", "postprocess", "containerOptions")
#: the field's words for an output that a job may go without, and for one that is merged
MAY_BE_MISSING, MERGED_LATER = "an", "TOMERGE"
#: where outputs go that ask for no kind of storage
DISK = "DATADISK"
#: column of the field's task -> ours
_COLUMNS = {
    "coreCount": "core_count", "ramCount": "ram_count", "ramUnit": "ram_unit", "outDiskCount": "out_disk_count",
    "outDiskUnit": "out_disk_unit", "workDiskCount": "work_disk_count", "cpuTime": "cpu_time",
    "cpuTimeUnit": "cpu_time_unit", "cpuEfficiency": "cpu_efficiency", "baseWalltime": "base_walltime",
    "baseRamCount": "base_ram_count", "walltime": "walltime", "taskPriority": "task_priority",
    "currentPriority": "current_priority", "transUses": "trans_uses", "transHome": "trans_home",
    "processingType": "processing_type", "termCondition": "term_condition", "eventService": "event_service",
    "numThrottled": "num_throttled", "container_name": "container_name", "workingGroup": "working_group",
    "campaign": "campaign", "cloud": "cloud", "site": "site", "goal": "goal", "ioIntensity": "io_intensity",
    "mergeCoreCount": "merge_core_count",
}  # fmt: skip


#: files of a job: the name of each, and what is said of it
_Files = list[tuple[Any, ...]]


def text_of(text: str) -> str:
    """A command line without what only its writer's formatting says."""
    plain = _LIBRARY.sub("LIBRARY", _STEPS.sub("", text))
    return " ".join(plain.replace("', '", "','").split())


def differences(case: Case, came: Came) -> dict[str, str]:
    """What differs, each with both sides; nothing where all is the same."""
    if came.refused is not None and not came.jobs:
        return {"refused": came.refused}
    found = _Found()
    found.compare_rules(case.refined["task"]["splitRule"], came.rules)
    for name, column in _COLUMNS.items():
        found.compare(name, case.refined["task"].get(name) or None, came.task.get(column) or None)
    found.compare("datasets", _their_datasets(case.refined), _our_datasets(came.datasets))
    found.compare("number of jobs", case.made["n_jobs"], sum(one["kind"] != "build" for one in came.jobs))
    n_built = sum(one["kind"] == "build" for one in came.jobs)
    for theirs, ours in zip(case.made["jobs"], came.jobs, strict=False):
        found.compare_jobs("", theirs, _behind_builds(ours, n_built))
    their_merged = case.made.get("merge_jobs") or []
    found.compare("number of merge jobs", case.made.get("n_merge_jobs") or 0, len(came.merge_jobs))
    for theirs, ours in zip(their_merged, came.merge_jobs, strict=False):
        found.compare_jobs("merge ", theirs, ours)
    return found.told


class _Found:
    """Differences of one task by what they are about; the first of a kind is told."""

    def __init__(self) -> None:
        self.told: dict[str, str] = {}

    def compare(self, about: str, theirs: Any, ours: Any) -> None:
        if theirs != ours:
            self.told.setdefault(about, f"field: {theirs}\nours:  {ours}")

    def compare_rules(self, theirs: str, ours: Mapping[str, str]) -> None:
        """Codes of split rules with their values."""
        field = dict(part.split("=", 1) for part in theirs.split(",") if part)
        for code in sorted(field.keys() | ours.keys()):
            self.compare(f"rule {code}", field.get(code), ours.get(code))

    def compare_jobs(self, kind: str, theirs: dict[str, Any], ours: dict[str, Any]) -> None:
        """Program, text, steps, and what is said of each file of one job, in order."""
        self.compare(f"{kind}text", text_of(theirs["job_parameters"]), text_of(ours["jobPars"]))
        programs = [str(one["transformation"]).rpartition("/")[2] for one in (theirs, ours)]
        self.compare(f"{kind}program", *programs)
        steps = (_steps_in(theirs["job_parameters"]), ours)
        self.compare(f"{kind}steps", *({name: _step(one.get(name)) for name in STEPS} for one in steps))
        self.compare_files(f"{kind}inputs", _read(theirs), _reads(ours), ("datasets", "blocks", "tokens"))
        if ours["kind"] != "build":  # files and datasets of libraries have names of Orrery's own
            about = ("types", "datasets", "destinations", "left out")
            self.compare_files(f"{kind}outputs", _written_files(theirs), _writes(ours), about)

    def compare_files(self, files: str, theirs: _Files, ours: _Files, about: tuple[str, ...]) -> None:
        """Names in order; of the files of both, what is said of each."""
        self.compare(files, [name for name, *_ in theirs], [name for name, *_ in ours])
        told, known = ({name: said for name, *said in side} for side in (theirs, ours))
        both = [name for name in told if name in known]
        for place, what in enumerate(about):
            self.compare(
                f"{what} of {files}",
                {name: told[name][place] for name in both},
                {name: known[name][place] for name in both},
            )


def _behind_builds(job: dict[str, Any], n_built: int) -> dict[str, Any]:
    """The log of a job numbered as if build jobs, whose logs are in the task's dataset, had none."""
    log = str(job.get("logFile") or "")
    number = re.search(r"\d{6}(?=\.)", log)
    if not n_built or number is None or job["kind"] == "build":
        return job
    plain = log.replace(number[0], f"{int(number[0]) - n_built:06d}")
    return {**job, "logFile": plain, "outFiles": job["outFiles"].replace(log, plain)}


def _steps_in(text: str) -> dict[str, Any]:
    """The steps around the payload, which the field writes behind the command line."""
    found = re.search(r"<MULTI_STEP_EXEC>(.*)</MULTI_STEP_EXEC>", text, re.DOTALL)
    told = json.loads(found[1]) if found else {}
    return {name: told.get(name) for name in STEPS}


def _step(step: Mapping[str, str] | None) -> dict[str, str]:
    """A step with its program by name, as with those of jobs."""
    told = {name: text_of(text) for name, text in (step or {}).items()}
    return told | ({"command": told["command"].rpartition("/")[2]} if "command" in told else {})


def _read(theirs: Mapping[str, Any]) -> _Files:
    """Input files of the field's job: name, dataset as the task named it, the one that has the file, token."""
    return [
        (
            text_of(lfn),
            _of_library(group["dataset"]),
            _of_library(group.get("prodDBlock") or group["dataset"]),
            group.get("prodDBlockToken") or NOTHING,
        )
        for group in theirs["inputs"]
        if group["type"] != "pseudo_input"
        for lfn in group["lfns"]
        if not lfn.isdigit() and lfn != "pseudo_lfn"
    ]


def _reads(ours: Mapping[str, Any]) -> _Files:
    if not ours["inFiles"]:
        return []
    names = ("inFiles", "realDatasetsIn", "prodDBlocks", "prodDBlockToken")
    lists = zip(*(ours[name].split(",") for name in names), strict=True)
    return [(text_of(lfn), _of_library(named), _of_library(block), token) for lfn, named, block, token in lists]


def _written_files(theirs: Mapping[str, Any]) -> _Files:
    """Outputs of the field's job: name, type, dataset, storage, whether the job may go without it."""
    return [
        (
            one["lfn"],
            one["type"],
            _bare(one["destinationDBlock"]),
            _storage(one.get("destinationDBlockToken")),
            one.get("dispatchDBlockToken") == MAY_BE_MISSING,
        )
        for one in theirs["outputs"]
    ]


def _writes(ours: Mapping[str, Any]) -> _Files:
    if not ours["outFiles"]:
        return []
    optional = ours.get("allowNoOutput", "").split(",")
    lists = (ours[name].split(",") for name in ("outFiles", "destinationDblock", "ddmEndPointOut"))
    return [
        (lfn, "log" if lfn == ours.get("logFile") else "output", _bare(dataset), storage, lfn in optional)
        for lfn, dataset, storage in zip(*lists, strict=True)
    ]


def _storage(token: str | None) -> str:
    """The storage of the site that a token of an output leads to."""
    if token in (None, MERGED_LATER):
        return f"{SITE}_{DISK}"
    named = token.removeprefix("dst:")
    return named if named != token else f"{SITE}_{token.removeprefix('ATLAS')}"


def _bare(name: str) -> str:
    """A name without its scope, without the slash of a container and without numbers of datasets of sites."""
    return _NUMBERS.sub("", name.rpartition(":")[2].rstrip("/")).removesuffix(HERE)


def _of_library(name: str) -> str:
    """The dataset of an input, whose name is Orrery's own where it is a library."""
    return "LIBRARY" if re.search(r"\.lib\b", name) else _bare(name)


def _their_datasets(refined: Mapping[str, Any]) -> list[str]:
    """Inputs by placeholder, outputs by type and placeholder, with attributes."""
    told: list[tuple[str, str, Any]] = []
    for one in (*refined["masters"], *refined["secondaries"]):
        if one["type"] == "input":
            told.append((one["streamName"], _bare(one["datasetName"]), one.get("attributes")))
        else:
            told.append((one["type"], "", None))
    for one in (*refined["outputs"], *refined["unmerged"]):
        kind = one["type"].removeprefix("tmpl_")
        token = one.get("storageToken") or ""
        told.append((f"{kind} {one['streamName']} {token}", _bare(one["datasetName"]), one.get("attributes")))
    return _written(told)


def _our_datasets(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    told: list[tuple[str, str, Any]] = []
    for one in rows:
        kind, stream = one["type"].removeprefix("tmpl_"), one["stream_name"]
        given = {name: value for name, value in (one["attributes"] or {}).items() if name != "transient"}
        if kind == "input":
            told.append((stream, _bare(one["dataset_name"]), given))
        elif kind in ("pseudo_input", "random_seed"):
            told.append((kind, "", None))
        elif stream != "LIB":
            name = one["container_name"] or one["dataset_name"]
            role = f"{kind} {stream.removeprefix('TRN_')} {one['storage_token'] or ''}"
            told.append((role, _bare(name), given))
    return _written(told)


def _written(told: Iterable[tuple[str, str, Any]]) -> list[str]:
    lines = set()
    for role, name, attributes in told:
        given = attributes
        if isinstance(given, str):
            written = "output" if "output" in role or "log" in role else "input"
            item = {"type": "template", "param_type": "pseudo_input" if "ps" in given else written}
            given = Item.model_validate({**item, "attributes": given}).dataset_attributes()
        listed = ",".join(f"{key}={float(value)}" for key, value in sorted((given or {}).items()))
        lines.add(f"{role} {name} {listed}".strip())
    return sorted(lines)
