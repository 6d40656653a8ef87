"""What one job will do on its node.

It is drawn from the seed and the job's id, so that it does not depend on the order.
"""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from services.cli.simulated_pilots.command_line import named_files
from services.cli.simulated_pilots.profile import Fault, Profile
from shared.model.names import is_plain_name
from shared.model.outputs_by_expression import (
    BY_EXPRESSION,
    files_by_expression,
    is_by_expression,
    name_until_reported,
)

_EVENTS = re.compile(r"(?:maxEvents|nEvents|MAXEVENTS|n_events|events)[=\s]+(\d+)", re.IGNORECASE)
#: what a payload says that it needs, so that an example can show what becomes of one that is given less
_MEMORY = re.compile(r"--simulatedMemoryMB[=\s]+(\d{1,7})")
_LOG_BYTES = 200_000
#: files that a payload writes for an output by expression, and what each expression lets stand in their names
FILES_OF_EXPRESSION = 3
_ANYTHING = re.compile(r"(?:\\[dw]|\[[^\]]*\]|(?<!\\)\.)[*+]?")
_NOTHING = frozenset({"", "NULL"})
OUT_OF_MEMORY, STAGE_OUT_FAILED, PAYLOAD_FAILED = 1235, 1137, 1305


@dataclass(frozen=True)
class OutputFile:
    """A file the job writes."""

    lfn: str
    guid: str
    size_bytes: int
    adler32: str
    endpoint: str


@dataclass(frozen=True)
class Payload:
    """The whole life of a job, known from the start.

    Seconds are simulated; `fault` is how it ends, if not well. `returned`: the parameters of its task that a
    pre-processing job finds out, as its command line says.
    """

    job_id: int
    attempt_number: int
    cores: int
    n_events: int | None
    stage_in_s: float
    walltime_s: float
    stage_out_s: float
    cpu_s: float
    max_pss_kb: int
    outputs: tuple[OutputFile, ...]
    has_input: bool
    fault: Fault | None
    fault_at: float  # fraction of the walltime
    duplicate_report: bool
    bad_report: bool
    returned: Any = None

    @property
    def ends_as(self) -> str:
        """The kind of its failure, or "finished"; a payload that failed has nothing to list badly."""
        if self.fault is not None:
            return self.fault.value
        return Fault.BAD_REPORT.value if self.bad_report else "finished"

    @property
    def runs_s(self) -> float:
        """How long the payload runs before it ends or fails."""
        return self.walltime_s * (self.fault_at if self.fault in (Fault.PAYLOAD, Fault.MEMORY) else 1.0)


def draw(spec: Mapping[str, Any], profile: Profile) -> Payload:
    """The payload of a job specification (PanDA pilot protocol: the job specification)."""
    job_id, attempt = int(spec["PandaID"]), int(spec.get("attemptNr") or 0)
    rng = random.Random(f"{profile.seed}/{job_id}/{attempt}")
    cores = max(1, int(spec.get("coreCount") or 1))
    n_events = events_of(spec)
    cpu_s, walltime_s = _times(spec, profile, rng, cores, n_events)
    fault = _fault(profile, rng)
    fault_at = rng.uniform(0.05, 0.95)
    given_kb = int(spec.get("minRamCount") or 0) * 1024
    needed_kb = memory_kb_of(spec)
    if 0 < given_kb < needed_kb:
        fault = Fault.MEMORY
    return Payload(
        job_id=job_id,
        attempt_number=attempt,
        cores=cores,
        n_events=n_events,
        stage_in_s=rng.uniform(20, 120),
        walltime_s=walltime_s,
        stage_out_s=rng.uniform(10, 90),
        cpu_s=cpu_s,
        max_pss_kb=needed_kb or _memory_kb(profile, rng, cores, given_kb, fault),
        outputs=_outputs(spec, profile, rng, n_events),
        has_input=str(spec.get("inFiles") or "") not in _NOTHING,
        fault=fault,
        fault_at=fault_at,
        duplicate_report=rng.random() < profile.rates.get(Fault.DUPLICATE, 0.0),
        bad_report=rng.random() < profile.rates.get(Fault.BAD_REPORT, 0.0),
        returned=returned_by(spec),
    )


def returned_by(spec: Mapping[str, Any]) -> Any:
    """What a pre-processing job returns: the JSON behind --taskParameters= on its command line, or None.

    Example: --taskParameters={"nFilesPerJob":3} is {"nFilesPerJob": 3}; what is no JSON is returned as the text.
    """
    _, mark, text = str(spec.get("jobPars") or "").partition("--taskParameters=")
    if not mark:
        return None
    try:
        return json.JSONDecoder().raw_decode(text)[0]
    except ValueError:
        return text


def events_of(spec: Mapping[str, Any]) -> int | None:
    """The events the payload is told to process, as its command line says."""
    found = _EVENTS.search(str(spec.get("jobPars") or ""))
    return int(found.group(1)) if found and int(found.group(1)) > 0 else None


def memory_kb_of(spec: Mapping[str, Any]) -> int:
    """The memory that the payload says it needs; 0 where it says nothing.

    Example: --simulatedMemoryMB=1700 is 1740800 kB; a job that was given 1000 MB fails for its memory.
    """
    found = _MEMORY.search(str(spec.get("jobPars") or ""))
    return int(found.group(1)) * 1024 if found else 0


def _times(
    spec: Mapping[str, Any], profile: Profile, rng: random.Random, cores: int, n_events: int | None
) -> tuple[float, float]:
    """(CPU seconds, wall seconds): the payload of a task costs the same per event in all its jobs, but for noise."""
    noise = math.exp(rng.gauss(0, 0.1))
    limit_s = float(spec.get("maxWalltime") or 0) * 0.8 or profile.longest_walltime_s
    limit_s = max(60.0, min(limit_s, profile.longest_walltime_s))
    efficiency = rng.uniform(0.75, 0.95)
    if n_events is None:
        wall_s = profile.walltime_s * math.exp(rng.gauss(0, profile.walltime_spread))
    else:
        task = random.Random(f"{profile.seed}/task/{spec.get('taskID')}")
        per_event_s = profile.event_s * math.exp(task.gauss(0, profile.event_spread))
        wall_s = profile.set_up_s + per_event_s * noise * n_events / cores / efficiency
    wall_s = min(wall_s, limit_s)
    return wall_s * cores * efficiency, wall_s


def _fault(profile: Profile, rng: random.Random) -> Fault | None:
    """One draw decides among the ways to end."""
    point = rng.random()
    for kind in (Fault.PAYLOAD, Fault.MEMORY, Fault.STAGE_OUT, Fault.VANISH, Fault.SILENT):
        point -= profile.rates.get(kind, 0.0)
        if point < 0:
            return kind
    return None


def _memory_kb(profile: Profile, rng: random.Random, cores: int, given_kb: int, fault: Fault | None) -> int:
    """Below what was asked for, unless running out of memory is what happens."""
    needed = profile.memory_mb_per_core * cores * 1024 * math.exp(rng.gauss(0, profile.memory_spread))
    if fault is Fault.MEMORY:
        return int(max(needed, given_kb) * rng.uniform(1.02, 1.2))
    return int(min(needed, given_kb * rng.uniform(0.8, 0.98))) if given_kb else int(needed)


def _outputs(
    spec: Mapping[str, Any], profile: Profile, rng: random.Random, n_events: int | None
) -> tuple[OutputFile, ...]:
    """Of the files that a pilot looks for those that the payload wrote, and the log, which the pilot makes itself."""
    lfns = [lfn for lfn in str(spec.get("outFiles") or "").split(",") if lfn not in _NOTHING]
    endpoints = str(spec.get("ddmEndPointOut") or "").split(",")
    log = str(spec.get("logFile") or "")
    written = named_files(spec) | {log}
    files = []
    for place, lfn in _written(lfns, written, int(spec["PandaID"])):
        size = 1_000_000 + int(profile.output_kb_per_event * 1024 * (n_events or 1000) * rng.uniform(0.9, 1.1))
        guid = f"{rng.getrandbits(128):032x}"
        files.append(
            OutputFile(
                lfn=lfn,
                guid=str(spec["logGUID"]) if lfn == log and spec.get("logGUID") else _dashed(guid),
                size_bytes=int(_LOG_BYTES * rng.uniform(0.5, 2)) if lfn == log else size,
                adler32=f"{rng.getrandbits(32):08x}",
                endpoint=endpoints[place] if place < len(endpoints) else "",
            )
        )
    return tuple(files)


def _written(lfns: list[str], named: frozenset[str], job_id: int) -> Iterator[tuple[int, str]]:
    """(place in the list, name) of each file: for an expression some files whose names match it."""
    for place, lfn in enumerate(lfns):
        if is_by_expression(lfn):
            yield from ((place, name) for name in names_that_match(lfn, job_id))
        elif lfn in named:
            yield place, lfn


def names_that_match(told: str, job_id: int) -> list[str]:
    """Make names of files that match an expression; none where it is more than this understands.

    Example: job 7 writes a71.root, a72.root and a73.root for `regex|^a.*\\.root$`.
    """
    expected, found = name_until_reported(told, "0"), list[str]()
    for number in range(1, FILES_OF_EXPRESSION + 1):
        name = _ANYTHING.sub(f"{job_id}{number}", told.removeprefix(BY_EXPRESSION)).strip("^$").replace("\\", "")
        if is_plain_name(name) and name not in found and files_by_expression([expected], [name])[expected]:
            found.append(name)
    return found


def _dashed(text: str) -> str:
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
