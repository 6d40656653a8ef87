"""Task parameters that this version does not carry out: refused with the reason, never ignored."""

from __future__ import annotations

#: of a task where it is no DATASET:FILE, and of its buildSpec
NO_TAR_BALL = (
    "an archive that jobs read from a dataset is not supported by this version but as DATASET:FILE of a task without "
    "build jobs: send it to the file server"
)
#: values by which a client says that it does not want the thing
SAYS_NO = (None, False, 0, "", "none")
_TEMPLATE = "is a column of output templates that no field sets: "
#: field of an item of jobParameters -> why it is refused
REFUSED_OF_ITEMS = {
    "sourceName": f"{_TEMPLATE}jobs write their files under the names that value gives",
    "maxSerialNr": f"{_TEMPLATE}serial numbers have no end",
}
#: parameter -> why it is refused, unless its value says no
REFUSED = {
    "registerEsFiles": "zip files of ranges are not registered in a dataset by this version: the grid does not know "
    "which storage a store's number means, so they stay where pilots wrote them until they are merged",
    "objectStore": "is a token of outputs that jobs of the event service list, and they list their log alone: "
    "pilots write events to a store of their queue and name it with each file",
    "osMatching": "by which rule the system that a task was submitted on (osInfo) matches that of a queue "
    "is not known to this version: name the platform in architecture",
    "allowInputWAN": "from which storages a queue may read over a wide-area network instead of moving the input "
    "is not known to this version: input is moved",
    "amiFlag": "is not for submitters: the column is READY once the task is done or finished",
    "superStatus": "states of DEFT are not kept by this version: the column stays unused",
    "pushJob": "jobs are taken by pilots in this version: none is pushed to a batch system by the server",
    "switchEStoNormal": "how a task changes to jobs without ranges is not known to this version: leave out "
    "nEventsPerWorker",
    "workflowHoldup": "workflows are not carried out by this version, so nothing would end the hold: submit the tasks "
    "of a workflow one by one, each with the parent it waits for (parent_tid)",
    "tarBallViaDDM": NO_TAR_BALL,
    "useZipToPin": "zipped input is not supported by this version",
}
