"""Task parameters that this version does not carry out: refused with the reason, never ignored."""

from __future__ import annotations

_HPO = "hyper-parameter optimisation is not supported by this version"
_SEGMENTS = "segmented work is not supported by this version: how a segment names its input is not known to it"

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
    "preproSpec": "pre-processing jobs are not supported by this version: name the input that they would find",
    "loadXML": "splitting described by XML is not supported by this version: a job has one file of each output",
    "segmentSpecs": _SEGMENTS,
    "segmentedWork": _SEGMENTS,
    "hpoWorkflow": _HPO,
    "hpoRequestData": _HPO,
    "maxNumJobs": _HPO,
    "totNumJobs": _HPO,
    "useJobCloning": "job cloning is not supported by this version",
    "mergeEsOnOS": "merging at an object store is not supported by this version: events are merged at a queue",
    "registerEsFiles": "which dataset files of the event service are registered in is not known to this version",
    "objectStore": "queues name their own object stores: a task chooses none in this version",
    "fineGrainedProc": "fine-grained processing is not supported by this version",
    "noAutoPause": "no task is paused for its failures by this version",
    "osMatching": "which operating systems match is not known to this version: name the platform in architecture",
    "allowInputWAN": "reading over a wide-area network is not supported by this version: input is moved",
    "encJobParams": "encoded job parameters are not supported by this version: send them as they are",
    "getNumEventsInMetadata": "numbers of events of outputs are not taken from the metadata by this version",
    "amiFlag": "AMI is not told of the ends of tasks by this version: the column stays unused",
    "superStatus": "states of DEFT are not kept by this version: the column stays unused",
    "useZipToPin": "zipped input is not supported by this version",
}
