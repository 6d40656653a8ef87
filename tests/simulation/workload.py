"""What users of the simulation submit: small versions of the kinds of task.

Most seeds have plain ones; those above KIND_SEEDS have event service, jumbo jobs, builds, pre-processing and copies.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.simulation.scenario import GROWING

#: seeds above this one have tasks of other kinds: event service, jumbo jobs, builds, pre-processing, copies of jobs
KIND_SEEDS = 300
#: seeds from this one on are new ones of every family in turn
NEW_SEEDS = 1_000_000
#: events of a job, as the pre-processing job returns them
RETURNED_EVENTS = 100
#: in the names of tasks with fine-grained processing, and so of their jobs
FINE_GRAINED = "fine"
Parameters = Mapping[str, Any]


@dataclass(frozen=True)
class Workload:
    """Tasks in the order of their submission, and which of them follow something: the child is submitted after the
    parent whose output it reads, the growing one reads input that is open."""

    tasks: Sequence[Parameters]
    parent: int
    growth: int
    child: int


def has_other_kinds(seed: int) -> bool:
    """Whether the tasks of a seed are of other kinds than the plain ones."""
    return KIND_SEEDS < seed < NEW_SEEDS or (seed >= NEW_SEEDS and seed % 3 == 0)


def of_seed(seed: int) -> Workload:
    """The tasks of one seed."""
    return _kinds(random.Random(f"kinds of {seed}")) if has_other_kinds(seed) else _plain()


def _plain() -> Workload:
    tasks = [_simulation(), _generation(), _derivation(), _analysis(), _growth(), _child("DAOD")]
    return Workload(tasks, parent=2, growth=4, child=5)


def _kinds(rng: random.Random) -> Workload:
    """Event service with and without jumbo jobs, on whole and on growing input, a build, pre-processing, and copies.

    Event service is fine-grained, and the growing input is that of copies, in some seeds.
    """
    parent = rng.choice((_events, _events, _fine_grained))(rng)
    tasks = [parent, _jumbo(rng), _build(rng)]
    growth = rng.choice((_growing_events, _growing_events, _growing_copies))(rng)
    tasks += [growth, _child("HITS"), _pre_processed(), _copies(rng)]
    return Workload(tasks, parent=0, growth=3, child=4)


def _task(name: str, **fields: Any) -> dict[str, Any]:
    return {
        "taskName": f"sim.{name}", "userName": "production", "vo": "atlas", "prodSourceLabel": "managed",
        "taskType": "prod", "processingType": "simul", "workingGroup": "AP_SIM", "taskPriority": 500,
        "architecture": "x86_64-centos7-gcc11-opt", "transUses": "Atlas-23.0.53", "transHome": "Sim-23.0.53",
        "transPath": "Sim_tf.py", "coreCount": 1, "ramCount": 1500, "ramUnit": "MB", "cpuTime": 10,
        "cpuTimeUnit": "HS06sPerEvent", "maxAttempt": 8,
        "log": {"type": "template", "param_type": "log", "value": "log.$JEDITASKID._${SN/P}.tgz",
                "dataset": f"sim.{name}.log", "token": "ATLASDATADISK"},
        **fields,
    }  # fmt: skip


def _input(dataset: str) -> dict[str, Any]:
    return {"type": "template", "param_type": "input", "value": "--input=${IN}", "dataset": f"sim:{dataset}"}


def _output(name: str) -> dict[str, Any]:
    return {"type": "template", "param_type": "output", "value": f"--output={name}.$JEDITASKID._${{SN/P}}.root",
            "dataset": f"sim.{name}.out", "token": "ATLASDATADISK"}  # fmt: skip


def _number(placeholder: str) -> dict[str, Any]:
    return {"type": "template", "param_type": "number", "value": f"--{placeholder.lower()}=${{{placeholder}}}"}


def _simulation() -> dict[str, Any]:
    """Event-level splitting: 3 files of 200 events, 100 events per job."""
    parameters = [_input("simulation.EVNT"), _number("MAXEVENTS"), _number("SKIPEVENTS"), _number("RNDMSEED")]
    return _task("simulation", nEventsPerInputFile=200, nEventsPerJob=100, jobParameters=[*parameters, _output("HITS")])


def _generation() -> dict[str, Any]:
    """No input: 12 jobs, the first ten of them scouts."""
    parameters = [_number("MAXEVENTS"), _number("FIRSTEVENT"), _number("RNDMSEED"), _output("EVNT")]
    return _task("generation", processingType="evgen", noInput=True, nEvents=1200, nEventsPerJob=100,
                 jobParameters=parameters)  # fmt: skip


def _derivation() -> dict[str, Any]:
    """Merged output: 8 files, 2 per job, 2 outputs per merge job."""
    return _task(
        "derivation", processingType="deriv", nFilesPerJob=2, mergeOutput=True, nFilesPerMergeJob=2,
        mergeSpec={"transPath": "Merge_tf.py", "jobParameters": "--in=${TRN_OUTPUT0/L} --out=${OUTPUT0}"},
        log_merge={"type": "template", "param_type": "log", "value": "merge.$JEDITASKID._${SN/P}.tgz",
                   "dataset": "sim.derivation.merge.log", "token": "ATLASDATADISK"},
        jobParameters=[_input("derivation.AOD"), _output("DAOD")],
    )  # fmt: skip


def _analysis() -> dict[str, Any]:
    """A container of three datasets."""
    return _task("analysis", userName="student", prodSourceLabel="user", taskType="anal", processingType="panda-client",
                 taskPriority=1000, nFilesPerJob=1, jobParameters=[_input("analysis/"), _output("hist")],
                 maxFailure=8)  # fmt: skip


def _growth() -> dict[str, Any]:
    """Runs until its input is closed."""
    return _task("growth", nFilesPerJob=1, runUntilClosed=True, skipScout=True,
                 jobParameters=[_input(GROWING), _output("GROWN")])  # fmt: skip


def _child(stream: str) -> dict[str, Any]:
    """Follows the output of its parent while that grows."""
    return _task("child", nFilesPerJob=1, noWaitParent=True, skipScout=True,
                 jobParameters=[_input(f"sim.{stream}.out"), _output("CHILD")])  # fmt: skip


def _event_service(rng: random.Random) -> dict[str, Any]:
    """What a task with event service may choose."""
    found: dict[str, Any] = {
        "nFilesPerJob": 1,
        "maxAttemptEsJob": rng.choice((2, 3, 10)),
        "maxAttemptES": rng.choice((3, 10)),
    }
    for name in ("notDiscardEvents", "decAttOnFailedES", "resurrectConsumers", "inFilePosEvtNum", "mergeEsOnOS"):
        if rng.random() < 0.5:
            found[name] = True
    return found


def _events(rng: random.Random) -> dict[str, Any]:
    """Event service: 3 files of 200 events in ranges of 50, several jobs for each file; its merge has a program."""
    merge = {"transPath": "EventMerge_tf.py", "jobParameters": "--in=${TRN_OUTPUT0/L} --out=${OUTPUT0}"}
    return _task(
        "events", nEventsPerWorker=50, nEsConsumers=rng.choice((1, 2)), nSitesPerJob=rng.choice((1, 2)),
        **_event_service(rng), **({"esmergeSpec": merge} if rng.random() < 0.5 else {}),
        jobParameters=[_input("simulation.EVNT"), _output("HITS")],
    )  # fmt: skip


def _jumbo(rng: random.Random) -> dict[str, Any]:
    """Jumbo jobs: 3 files of 200 events in ranges of 40, processed by jobs of all files and by those of each."""
    return _task("jumbo", nEventsPerWorker=40, nJumboJobs=rng.choice((1, 2)), maxJumboPerSite=1,
                 skipScout=rng.random() < 0.5, **_event_service(rng),
                 jobParameters=[_input("simulation.EVNT"), _output("EVNT")])  # fmt: skip


def _fine_grained(rng: random.Random) -> dict[str, Any]:
    """Event service whose jobs report ranges that nobody gave them: 3 files of 200 events in ranges of 20."""
    return _task(FINE_GRAINED, nEventsPerWorker=20, fineGrainedProc=True, **_event_service(rng),
                 jobParameters=[_input("simulation.EVNT"), _output("HITS")])  # fmt: skip


def _growing_events(rng: random.Random) -> dict[str, Any]:
    """Event service on input that changes until it is closed."""
    name, fine_grained = rng.choice((("growth", {}), (f"growth.{FINE_GRAINED}", {"fineGrainedProc": True})))
    return _task(name, nEventsPerWorker=50, runUntilClosed=True, skipScout=True, **_event_service(rng), **fine_grained,
                 jobParameters=[_input(GROWING), _output("GROWN")])  # fmt: skip


def _cloned(rng: random.Random) -> dict[str, Any]:
    """Copies of each job, of which one counts."""
    found = {"useJobCloning": rng.choice(("runonce", "storeonce")), "nFilesPerJob": 1}
    return {**found, **rng.choice(({}, {"nEsConsumers": 2}, {"nSitesPerJob": 3}))}


def _growing_copies(rng: random.Random) -> dict[str, Any]:
    """Copies of jobs on input that changes until it is closed."""
    return _task("growth", runUntilClosed=True, skipScout=True, **_cloned(rng),
                 jobParameters=[_input(GROWING), _output("GROWN")])  # fmt: skip


def _copies(rng: random.Random) -> dict[str, Any]:
    """Copies of three jobs, the first of them scouts in some seeds."""
    return _task("copies", skipScout=rng.random() < 0.5, **_cloned(rng),
                 jobParameters=[_input("simulation.EVNT"), _output("COPIES")])  # fmt: skip


def _build(rng: random.Random) -> dict[str, Any]:
    """Analysis of a container of three datasets with sources that are compiled once at each site."""
    build = {"archiveName": "sources.1.tar.gz", "jobParameters": "-i ${IN} -o ${OUT}", "transPath": "buildGen"}
    library = {"type": "constant", "value": "-l ${LIB}"}
    return {**_analysis(), "taskName": "sim.build", "buildSpec": build, "skipScout": rng.random() < 0.5,
            "jobParameters": [library, *_analysis()["jobParameters"]]}  # fmt: skip


def _pre_processed() -> dict[str, Any]:
    """How many events each of its jobs makes is found out by a job before it is defined."""
    returned = f'--taskParameters={{"nEventsPerJob": {RETURNED_EVENTS}}}'
    first = {"transPath": "find.sh", "prodSourceLabel": "managed", "jobParameters": returned}
    parameters = [_number("MAXEVENTS"), _number("FIRSTEVENT"), _output("PREPROCESSED")]
    return {**_generation(), "taskName": "sim.preprocessed", "nEvents": 400, "nEventsPerJob": 200,
            "jobParameters": parameters, "preproSpec": first}  # fmt: skip
