"""What a job specification says of task and queue (PanDA pilot protocol: the job specification)."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any

from services.job_generation.policy.kinds import KindOfJob
from services.job_generation.policy.values import QueueFacts, Task, Unit

NOTHING = "NULL"
#: booleans of the job specification are texts, and what is false is left out
TRUE = "True"
NO_INPUT = {
    "inFiles": "", "realDatasetsIn": NOTHING, "GUID": "", "fsize": "", "checksum": "", "scopeIn": "",
    "ddmEndPointIn": "", "prodDBlocks": NOTHING, "prodDBlockToken": NOTHING,
}  # fmt: skip
NO_OUTPUT = {"outFiles": "", "realDatasets": "", "destinationDblock": "", "ddmEndPointOut": "", "scopeOut": ""}

#: fields of the specification that are fields of the task's parameters under the same name
_AS_GIVEN = ("container_name", "sourceURL", "altStageOut")
#: the same for what is true
_FLAGS = {
    "debugMode": "debug", "noExecStrCnv": "noExecStrCnv", "useSecrets": "useSecrets", "putLogToOS": "putLogToOS",
    "usePrefetcher": "usePrefetcher",
}  # fmt: skip


def base_fields(
    task: Task, queue: QueueFacts, cores: int, kind: KindOfJob, *, trans_path: str | None
) -> dict[str, Any]:
    """Fields that all jobs of a chunk at one queue share."""
    base: dict[str, Any] = {
        "taskID": task.task_id,
        "jobsetID": task.request_id or task.task_id,
        "reqID": task.request_id or task.task_id,
        "jobDefinitionID": 0,
        "prodSourceLabel": task.prod_source_label,
        "processingType": kind.processing_type or task.processing_type or NOTHING,
        "prodUserID": task.user_name,
        "workingGroup": task.working_group or NOTHING,
        "cloud": _cloud(task, queue),
        "computingSite": queue.queue,
        "nucleus": task.nucleus or NOTHING,
        "transformation": trans_path or task.trans_path or NOTHING,
        "homepackage": task.trans_home or NOTHING,
        "swRelease": task.trans_uses or NOTHING,
        "cmtConfig": queue.platform or NOTHING,
        "transferType": _transfer_type(task, queue, kind),
        "coreCount": cores,
        "resource_type": queue.resource_type,
        # the pilot ends a payload that writes nothing for so long; 0 leaves it to the pilot (3 hours for analysis)
        "maxCpuCount": max(0, task.parameters.get("walltime") or 0),
        "loopingCheck": not task.parameters.get("noLoopingCheck"),
        "gshare": task.gshare,
    }
    base |= {name: value for name in _AS_GIVEN if (value := task.parameters.get(name))}
    base |= {field: TRUE for name, field in _FLAGS.items() if task.parameters.get(name)}
    if queue.is_virtual_placement:
        base["useVP"] = TRUE
    if task.container_name:
        base["container_name"] = task.container_name
    return base


def _cloud(task: Task, queue: QueueFacts) -> str:
    """The queue's; the task's own where it stands for a VO (cloudAsVO)."""
    own = task.parameters.get("cloud") if task.parameters.get("cloudAsVO") else None
    return own or queue.cloud or NOTHING


def _transfer_type(task: Task, queue: QueueFacts, kind: KindOfJob) -> str:
    """As the task says; else direct where the queue's input can be read without copying it."""
    stated = task.parameters.get("transferType")
    if stated:
        return str(stated)
    return "direct" if queue.reads_directly and not kind.copies_to_scratch(task) else NOTHING


def task_texts(task: Task) -> dict[str, str]:
    """Texts that are the same for every job of a task."""
    return {
        "TASKID": str(task.task_id),
        "SURL": str(task.parameters.get("sourceURL") or "${SURL}"),  # without an address the text stays
        "USERNAME": task.user_name,
        "MIDDLENAME": "",
    }


def fields_of_steps(steps: Mapping[str, Any], transformation: str, parameters: str) -> dict[str, Any]:
    """The steps of a payload (`multiStepExec`) with its transformation and parameters filled in.

    Example: {"preprocess": {"command": "${TRF}", "args": "--preprocess ${TRF_ARGS}"}} of runGen with "-n 3" is
    {"preprocess": {"command": "runGen", "args": "--preprocess -n 3"}}.
    """
    return {
        step: {
            name: text.replace("${TRF_ARGS}", parameters).replace("${TRF}", transformation)
            for name, text in given.items()
        }
        for step, given in steps.items()
        if given
    }


def distinct(units: Sequence[Unit]) -> list[str]:
    """File names once each: two ranges of a file are one name."""
    return [units[0].lfn] if len(units) == 1 else list(dict.fromkeys(unit.lfn for unit in units))


def sequence_number(unit: Unit) -> str:
    """The number that stays with a unit through its attempts: a pseudo file's own, else the unit's id."""
    digits = unit.lfn.rpartition("_")[2]
    return str(int(digits)) if unit.lfn.startswith("pseudo_lfn_") and digits.isdigit() else str(unit.file_id)


def guid_of(seed: int, lfn: str) -> str:
    """A file's GUID, from the request's seed and its name: the same request gives the same ones."""
    text = hashlib.blake2b(f"{seed}/{lfn}".encode(), digest_size=16).hexdigest()
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:]}"


def input_lists(
    units: Mapping[str, Unit], facts: Sequence[tuple[str, str, str]], storage: str, block_token: str
) -> dict[str, str]:
    """Files as comma-joined lists, one place for each.

    `facts`: short name, scope and type of their datasets.
    """
    names = ",".join([name for name, _, _ in facts])
    rows = list(units.values())
    return {
        "inFiles": ",".join(units),
        "realDatasetsIn": names,
        "GUID": ",".join([unit.guid or NOTHING for unit in rows]),
        "fsize": ",".join([str(unit.size_bytes) for unit in rows]),
        "checksum": ",".join([unit.checksum or NOTHING for unit in rows]),
        "scopeIn": ",".join([unit.scope or scope for unit, (_, scope, _) in zip(rows, facts, strict=True)]),
        "ddmEndPointIn": ",".join([storage] * len(rows)),
        "prodDBlocks": names,
        "prodDBlockToken": ",".join([block_token] * len(rows)),
    }


def encoded(parameters: str) -> str:
    """The command line as base64 (encJobParams): its program decodes it.

    Example: `run 1` is `cnVuIDE=`.
    """
    return b64encode(parameters.encode()).decode()
