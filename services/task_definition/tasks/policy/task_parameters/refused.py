"""Task parameters that this version does not carry out: refused with the reason, never ignored."""

from __future__ import annotations

from shared.task.refused import REFUSED_RULES

#: where it is no DATASET:FILE
NO_TAR_BALL = "allowed of analysis: DATASET:FILE, an archive that jobs read from a dataset"
#: values by which a client says that it does not want the thing
SAYS_NO = (None, False, 0, "", "none")
_TEMPLATE = "is a column of output templates that no field sets: "
#: field of an item of jobParameters -> why it is refused
REFUSED_OF_ITEMS = {
    "sourceName": f"{_TEMPLATE}jobs write their files under the names that value gives",
    "maxSerialNr": f"{_TEMPLATE}serial numbers have no end",
}
#: parameter -> why it is refused, unless its value says no
REFUSED = {name: why for name, (_, why) in REFUSED_RULES.items()} | {
    "objectStore": "is a token of outputs that jobs of the event service list, and they list their log alone: "
    "pilots write events to a store of their queue and name it with each file",
    "amiFlag": "is not for submitters: the column is READY once the task is done or finished",
    "superStatus": "states of DEFT are not kept by this version: the column stays unused",
    "tarBallViaDDM": NO_TAR_BALL,
}
