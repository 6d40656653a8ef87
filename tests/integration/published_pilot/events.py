"""A task of event service for the published pilot, and what its pilots find on their node.

Two programs that the pilot needs are stood for (`event_service/path`): yampl, in whose messages it speaks with the
payload (`event_service/transform.py`), and `rucio`, with which its copy tool for object stores moves tars.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tests.integration.published_pilot import world

#: the halves of the key of the object store, by the names that CRIC has for them
KEYS = {"EventsPublic": "one_half", "EventsPrivate": "other_half"}
#: the subject of pilots, who may have them
PILOTS = "factory"
ENDS_BEFORE = "3.11.5.1 ends before its payload (1310): its executor of events gives generic code none of its arguments"


def task(queue: str, *, has_log: bool) -> dict[str, Any]:
    """Two files of ten events in one job, in ranges of five; the merge has the text of the field's merges."""
    name = f"user.tester.{queue.lower()}"
    given = {"type": "template", "param_type": "input", "dataset": f"{world.SCOPE}:{world.EVENTS_DATASET}"}
    output = {"type": "template", "param_type": "output", "dataset": f"{name}.HITS"}
    parameters = [
        {**given, "value": "--inputEVNTFile=${IN}"},
        {**output, "value": "--outputHITSFile=HITS.$JEDITASKID._${SN/P}.txt"},
    ]
    merge = "--inputHITSFile=@inputFor_${OUTPUT0} --outputHITSFile=${OUTPUT0}"
    said = world.task(
        queue, "", Path(), has_input=True, transPath=f"{world.SCRIPTS}/Sim_tf.py", nFilesPerJob=2, nEventsPerWorker=5,
        jobParameters=parameters, esmergeSpec={"transPath": f"{world.SCRIPTS}/HITSMerge_tf.py", "jobParameters": merge},
    )  # fmt: skip
    return said if has_log else {field: value for field, value in said.items() if field != "log"}


def node(store: Path) -> dict[str, str]:
    """Variables of a node with yampl and `rucio`, for which the folder `store` is the object store."""
    path = world.PROGRAMS / "path"
    return {"PATH": f"{path}:{os.environ['PATH']}", "PYTHONPATH": str(path), "ORRERY_OBJECT_STORE": str(store)}
