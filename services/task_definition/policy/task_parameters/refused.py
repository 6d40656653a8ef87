"""Task parameters that this version does not carry out: refused with the reason, never ignored."""

from __future__ import annotations

_EVENT_SERVICE = "the event service is not supported by this version"
_JUMBO = "jumbo jobs are not supported by this version"
_HPO = "hyper-parameter optimisation is not supported by this version"
_SEGMENTS = "segmented work is not supported by this version"
_OUTPUT_NAMES = "output names made of input names are not supported by this version"
_MEMORY = "steps of memory for retries are not supported by this version: memory is raised by the usual steps"
_SHORT = "leaving out files at the end that do not fill a job is not supported by this version"

#: values by which a client says that it does not want the thing
SAYS_NO = (None, False, 0, "", "none")
#: parameter -> why it is refused, unless its value says no
REFUSED = {
    "buildSpec": "build jobs are not supported by this version",
    "preproSpec": "pre-processing jobs are not supported by this version",
    "loadXML": "splitting described by XML is not supported by this version",
    "segmentSpecs": _SEGMENTS,
    "segmentedWork": _SEGMENTS,
    "hpoWorkflow": _HPO,
    "hpoRequestData": _HPO,
    "maxNumJobs": _HPO,
    "totNumJobs": _HPO,
    "addNthFieldToLFN": _OUTPUT_NAMES,
    "useFileAsSourceLFN": _OUTPUT_NAMES,
    "pfnList": "input by physical file names is not supported by this version",
    "nJumboJobs": _JUMBO,
    "maxJumboPerSite": _JUMBO,
    "useJobCloning": "job cloning is not supported by this version",
    "nEventsPerWorker": _EVENT_SERVICE,
    "nEsConsumers": _EVENT_SERVICE,
    "nSitesPerJob": _EVENT_SERVICE,
    "maxAttemptES": _EVENT_SERVICE,
    "maxAttemptEsJob": _EVENT_SERVICE,
    "mergeEsOnOS": _EVENT_SERVICE,
    "notDiscardEvents": _EVENT_SERVICE,
    "decAttOnFailedES": _EVENT_SERVICE,
    "resurrectConsumers": _EVENT_SERVICE,
    "registerEsFiles": _EVENT_SERVICE,
    "esmergeSpec": _EVENT_SERVICE,
    "objectStore": _EVENT_SERVICE,
    "fineGrainedProc": _EVENT_SERVICE,
    "esFraction": _EVENT_SERVICE,
    "esConvertible": _EVENT_SERVICE,
    "inFilePosEvtNum": "positional event numbers are not supported by this version",
    "skipShortInput": _SHORT,
    "skipShortOutput": _SHORT,
    "orderInputBy": "another order of the input is not supported by this version: files are taken as they are listed",
    "noInputPooling": "input is always pooled by this version: files of several datasets may be in a job",
    "releasePerLB": "waiting for all files of a luminosity block is not supported by this version",
    "log_merge": "a log dataset of merge jobs alone is not supported by this version: they use that of the task",
    "retryRamOffset": _MEMORY,
    "retryRamStep": _MEMORY,
    "retryRamMax": _MEMORY,
    "minCpuEfficiency": "no task is ended for its CPU efficiency by this version",
    "noAutoPause": "no task is paused for its failures by this version",
    "osMatching": "which operating systems match is not known to this version: name the platform in architecture",
    "allowInputWAN": "reading over a wide-area network is not supported by this version: input is moved",
    "encJobParams": "encoded job parameters are not supported by this version: send them as they are",
    "getNumEventsInMetadata": "numbers of events of outputs are not taken from the metadata by this version",
    "termCondition": "a condition of its own for the end is not supported by this version: give goal",
    "useZipToPin": "zipped input is not supported by this version",
}
