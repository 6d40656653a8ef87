"""What a job specification says of task and queue (PanDA pilot protocol: the job specification)."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any

from services.job_generation.policy.values import QueueFacts, Task, Unit
from services.job_generation.specification.kind_of_job import KindOfJob
from shared.task.in_effect import SplitRules

NOTHING = "NULL"
#: booleans of the job specification are texts, and what is false is left out
TRUE = "True"
NO_INPUT = {
    "inFiles": "", "realDatasetsIn": NOTHING, "GUID": "", "fsize": "", "checksum": "", "scopeIn": "",
    "ddmEndPointIn": "", "prodDBlocks": NOTHING, "prodDBlockToken": NOTHING,
}  # fmt: skip
NO_OUTPUT = {"outFiles": "", "realDatasets": "", "destinationDblock": "", "ddmEndPointOut": "", "scopeOut": ""}


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
        "loopingCheck": not task.rules.no_looping_check,
        "gshare": task.gshare,
    }
    base |= {name: value for name, value in _as_given(task).items() if value}
    base |= {name: TRUE for name, is_true in _flags(task.rules).items() if is_true}
    if queue.is_virtual_placement:
        base["useVP"] = TRUE
    if task.container_name:
        base["container_name"] = task.container_name
    return base


def _as_given(task: Task) -> dict[str, Any]:
    """Fields that have what the task says, and are left out where it says nothing."""
    return {
        "container_name": task.parameters.get("container_name"),
        "sourceURL": task.rules.source_url,
        "altStageOut": task.rules.alt_stage_out,
    }


def _flags(rules: SplitRules) -> dict[str, bool]:
    """Fields that are left out where they are false."""
    return {
        "debug": rules.debug_mode,
        "noExecStrCnv": rules.no_exec_str_cnv,
        "useSecrets": rules.use_secrets,
        "putLogToOS": rules.put_log_to_os,
        "usePrefetcher": rules.use_prefetcher,
    }


def _cloud(task: Task, queue: QueueFacts) -> str:
    """The queue's; the task's own where it stands for a VO (cloudAsVO)."""
    own = task.parameters.get("cloud") if task.rules.cloud_as_vo else None
    return own or queue.cloud or NOTHING


def _transfer_type(task: Task, queue: QueueFacts, kind: KindOfJob) -> str:
    """As the task says; else direct where the queue's input can be read without copying it."""
    if task.rules.transfer_type:
        return task.rules.transfer_type
    return "direct" if queue.reads_directly and not kind.copies_to_scratch(task) else NOTHING


def task_texts(task: Task) -> dict[str, str]:
    """Texts that are the same for every job of a task."""
    return {
        "TASKID": str(task.task_id),
        "SURL": task.rules.source_url or "${SURL}",  # without an address the text stays
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


def encoded(parameters: str) -> str:
    """The command line as base64 (encJobParams): its program decodes it.

    Example: `run 1` is `cnVuIDE=`.
    """
    return b64encode(parameters.encode()).decode()
